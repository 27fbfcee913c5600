# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034
#
# Tests that fail in every possible way; scripts/checks/harness-test checks the reports.

setup() { true; }
TEST_LIMIT=5

test_passes() { true; }
test_skips() { skip "for a reason"; }
test_is_not_expected_to_skip() { skip "for a reason"; }
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
test_a_crash_is_no_failure() { must_fail bash -c 'kill -SEGV $$'; }
test_a_missing_program_is_no_refusal() { refuses 'not found' no_such_program; }
test_a_missing_file_has_no_such_line() { must_fail grep line /no/such/file; }
warn() { echo "WARNING: CPU: 0 PID: 1 at made/up.c:$1" >/dev/kmsg; }
test_warns_in_the_kernel_log() { warn 2; }
test_permits_a_warning() {
	log_allow 'made/up\.c:1'
	warn 1
	echo "Call Trace:" >/dev/kmsg
}
test_warning_of_a_test_before() { warn 2; }
test_permits_another_warning() {
	log_may 'made/up\.c:1'
	warn 2
}
test_permits_what_does_not_come() { log_allow 'made/up\.c:3'; }
test_need_not_come() { log_may 'made/up\.c:3'; }
test_does_not_end() { sleep 1000; }
test_fails_no_more() { true; }
