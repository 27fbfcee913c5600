# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The tests that scripts/demo shows, out of the other suites, in its order.

. ./suites/load.sh
. ./suites/rdma.sh
. ./suites/counters.sh
. ./suites/revoke.sh
. ./suites/kill.sh

setup() { load_stack; }

# shellcheck disable=SC2034 # init's
TESTS="test_stack_is_stock test_mlx5_ib_is_loaded test_core test_io test_zero_before
	test_perftest_write test_perftest_read
	test_write_and_read_back test_host_sees_the_bytes test_atomics test_bar_to_bar
	test_during test_sigkill_with_mrs test_ranges_are_free_again
	test_unbind_under_a_writer test_bind_again"
