# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The KUnit suites in the modules, which run as the module is loaded. What they
# say is KTAP of its own: it goes to /mnt/out/kunit-N.ktap, one for each module, and
# is counted from there. Filter, on the kernel command line: peer.kunit=GLOB.

setup() { load_stack; }
# Some minutes where the host is busy: all suites of all modules are one test here.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=900

# The suites that need fakes make the allocations of their own task fail, each in
# turn: those that may sleep as well, and without a stack trace for each.
load_tests() {
	local failslab=/sys/kernel/debug/failslab
	echo N >$failslab/ignore-gfp-wait
	echo 0 >$failslab/verbose
	insmod "$MODS/peer_mem_kunit.ko"
}

test_suites_ran() {
	local glob=/sys/module/kunit/parameters/filter_glob filter='*.*' word
	[ -e $glob ] || skip "this kernel has no KUnit"
	# shellcheck disable=SC2013 # words are meant
	for word in $(cat /proc/cmdline); do
		case $word in peer.kunit=*) filter=${word#*=} ;; esac
	done
	# No line end: it would be part of the pattern.
	printf %s "$filter" >$glob
	load_core
	load_io "$IDS"
	load_tests
	printf none >$glob
	log_since test | sed 's/^\[[^]]*\] //' |
		awk -v out="$OUT/kunit-" '/^KTAP version 1$/ { n++ } n { print >(out n ".ktap") }'
	cat "$OUT"/kunit-*.ktap
	grep -q '^ *ok' "$OUT"/kunit-*.ktap
}
