# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The KUnit suites in the modules, which run as the module is loaded. What they
# say is KTAP of its own: it goes to /mnt/out/kunit-N.ktap, one for each module, and
# is counted from there. Filter, on the kernel command line: peer.kunit=GLOB.

setup() { load_stack; }

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
	printf none >$glob
	log_since test | sed 's/^\[[^]]*\] //' |
		awk -v out="$OUT/kunit-" '/^KTAP version 1$/ { n++ } n { print >(out n ".ktap") }'
	cat "$OUT"/kunit-*.ktap
	grep -q '^ *ok' "$OUT"/kunit-*.ktap
}
