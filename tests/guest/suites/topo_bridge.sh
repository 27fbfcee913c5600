# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port; the CPU is one whose host bridge routes
# peer-to-peer DMA.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_layout test_nothing_shared test_p2pdma test_bus_addresses test_whole_bar
	test_one_byte test_bar_to_bar test_bar_to_host_and_back test_revoked"

test_nothing_shared() {
	must_fail common_port "$BDF_A" "$NEAR"
	must_fail common_port "$BDF_A" "$NEAR_TOO"
}

test_p2pdma() { p2pdma_says "through the host bridge"; }
