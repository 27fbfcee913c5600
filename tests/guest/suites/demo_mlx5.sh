# SPDX-License-Identifier: GPL-2.0
#
# The tests that scripts/demo shows where soft RoCE is not there, or gets no memory of BARs: those of
# demo on the stock mlx5 driver.

. ./suites/demo.sh

setup() { load_stack; }

# shellcheck disable=SC2034 # init's
TESTS="test_mlx5_is_stock test_core test_io
	test_perftest_write test_perftest_read
	test_write_and_read_back test_host_sees_the_bytes test_atomics test_bar_to_bar
	test_during test_sigkill_with_mrs test_ranges_are_free_again
	test_unbind_under_a_writer"
