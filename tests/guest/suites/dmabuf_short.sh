# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The suite dmabuf in short form, for the debug kernel: dma-bufs of the test exporter that move, are
# revoked, and outlive their names, their process or its mappings.

. ./suites/dmabuf.sh

# shellcheck disable=SC2034 # init's
TESTS="test_moves_under_a_writer test_revoked_under_a_writer test_addresses_of_an_old_name
	test_memory_of_a_bar test_killed_process"
