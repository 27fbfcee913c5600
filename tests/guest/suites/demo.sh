# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The tests that scripts/demo shows, out of the other suites, in its order.

. ./suites/load.sh
. ./suites/rdma.sh
. ./suites/counters.sh
. ./suites/revoke.sh
. ./suites/kill.sh

# shellcheck disable=SC2034 # of steps.sh
PERFTEST_RUNS=2

setup() { load_stack; }

# cmb FUNCTION: of the SSD's suite, whose tests have the names of others.
cmb() ( . ./suites/cmb.sh && "$1" )
test_nvme_is_stock() {
	modprobe nvme
	cmb find_ssd
	cmb test_driver_is_stock
}
test_nvme_write_and_read_back() { cmb test_write_and_read_back; }
test_nvme_from_the_bar_and_back() { cmb test_from_the_bar_and_back; }

# shellcheck disable=SC2034 # init's
TESTS="test_stack_is_stock test_mlx5_ib_is_loaded test_core test_io test_zero_before
	test_perftest_write test_perftest_read
	test_write_and_read_back test_host_sees_the_bytes test_atomics test_bar_to_bar
	test_nvme_is_stock test_nvme_write_and_read_back test_nvme_from_the_bar_and_back
	test_during test_sigkill_with_mrs test_ranges_are_free_again
	test_unbind_under_a_writer test_bind_again"
