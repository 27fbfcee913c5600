# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034
#
# Tests that fail in every possible way; scripts/harness-test checks the reports.

setup() { true; }
TEST_LIMIT=5

test_passes() { true; }
test_skips() { skip "for a reason"; }
test_command_fails_in_the_middle() {
	false
	true
}
test_command_fails_in_a_pipe() {
	false | cat
	true
}
test_negation_fails() {
	must_fail true
	true
}
test_warns_in_the_kernel_log() { echo "WARNING: CPU: 0 PID: 1 at made/up.c:1" >/dev/kmsg; }
test_does_not_end() { sleep 1000; }
test_fails_no_more() { true; }
