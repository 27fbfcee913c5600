# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suites in the modules, which run when the module is loaded. Their KTAP goes
# to /mnt/out/kunit-N.ktap, one file per module, and is counted from there. Filter, on
# the kernel command line: peer.kunit=GLOB.

setup() { load_stack; }
# All suites of all modules are one test here.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=900

# The suites with fakes inject allocation failures into their own task, one by one. They
# include allocations that may sleep, and log no stack trace.
load_tests() {
	local failslab=/sys/kernel/debug/failslab
	echo N >$failslab/ignore-gfp-wait
	echo 0 >$failslab/verbose
	insmod "$MODS/peer_mem_kunit.ko"
}

# The lines about faults that the suites make. Which ones come depends on the filter and on the
# limit of their rate.
permit_lines() {
	local line
	for line in 'does not revoke [0-9]+ bytes' 'may still access [0-9]+ bytes' \
		'no completion of a memory key work request' 'work request on a memory key failed' \
		'without importing the dma-buf' 'dma_unmap returned' 'has a fence that is not signalled' \
		'another module has replaced the operations' 'waiting until the other module restores'; do
		log_may "$line"
	done
}

# A wait that a test expects (Wait of tests/kunit/sync.rs) is known by parts of the names of its functions:
# after a rename it would never come.
test_waits_have_functions() {
	local parts n=0
	{
		awk '{ print $3 }' /proc/kallsyms
		grep -aohE '[A-Za-z_][A-Za-z0-9_]{4,}' "$MODS"/{ib_peer_mem,peer_mem_kunit}.ko
	} >/tmp/names
	while IFS= read -r parts; do
		n=$((n + 1))
		parts=${parts//\", \"/.*}
		# Of the kernel's functions that sleep it may be any one.
		parts=${parts#sleep.\*}
		grep -q "${parts% \[*}" /tmp/names || fail "no function has a name with $parts"
	done < <(sed -nE '/fn symbols/,/^    }/s/.*=> &\["(.*[^ ].*)"\],/\1/p' /mnt/tree/tests/kunit/sync.rs)
	[ $n -gt 5 ]
}

test_suites_ran() {
	local glob=/sys/module/kunit/parameters/filter_glob
	[ -e $glob ]
	permit_lines
	# A newline would be part of the pattern.
	printf %s "$(parameter kunit '*.*')" >$glob
	# The fakes execute work requests as rdma_rxe does; other devices get that on request.
	load_core backend=kunit_hw:fast_reg,kunit_own_hw:fast_reg
	load_io "$IDS"
	load_tests
	printf none >$glob
	log_since test | sed 's/^\[[^]]*\] //' |
		awk -v out="$OUT/kunit-" '/^KTAP version 1$/ { n++ } n { print >(out n ".ktap") }'
	cat "$OUT"/kunit-*.ktap
	grep -q '^ *ok' "$OUT"/kunit-*.ktap
}
