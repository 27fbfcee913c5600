# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # card.sh's
#
# The report card of the sample client in Rust: the points at which its own code runs.

KIT=/mnt/tree/samples/rust_client
. ./card.sh
TESTS="test_loads test_writes_and_reads test_offsets_and_lengths test_read_only_mapping
	test_invalidates_idle_mrs test_invalidates_under_a_writer test_mapping_holds_the_module
	test_unloads_under_a_writer test_loads_again"
