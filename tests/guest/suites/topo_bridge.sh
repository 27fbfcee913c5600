# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port; the CPU is one whose host bridge routes
# peer-to-peer DMA.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_layout test_nothing_shared test_p2pdma test_bus_addresses test_whole_bar
	test_many_registrations test_memory_cgroup
	test_one_byte test_bar_to_bar test_bar_to_host_and_back test_revoked
	test_bridges_are_refused"

test_nothing_shared() {
	must_fail common_port "$BDF_A" "$NEAR"
	must_fail common_port "$BDF_A" "$NEAR_TOO"
}

test_p2pdma() { p2pdma_says "through the host bridge"; }

# A root port of the adapters, which no other driver has by now.
test_bridges_are_refused() {
	local port driver
	port=$(readlink -f "/sys/bus/pci/devices/$NEAR/..")
	driver=$(readlink -f "$port/driver" || true)
	port=${port##*/}
	[ -z "$driver" ] || unbind "$port"
	echo io_peer_mem >"/sys/bus/pci/devices/$port/driver_override"
	log_step bridge
	must_fail bind "$port"
	log_since step | grep "$port: cannot be used: it is a bridge"
	echo >"/sys/bus/pci/devices/$port/driver_override"
	[ -z "$driver" ] || echo "$port" >"$driver/bind"
}
