# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # lkey and rkey are of tests/guest/adapter.sh
#
# The stock mlx5 driver with other topologies and ports of the emulated ConnectX: some tests of
# the other suites, and the addresses that the adapter gets.

. ./topology.sh
. ./suites/rdma.sh
. ./suites/revoke.sh

setup() {
	load_stack
	load_bars
}

# p2pdma decides by the topology, and the adapter gets the address that follows from that: of
# the BAR itself below a switch, or across a host bridge without an IOMMU.
test_address_of_the_adapter() {
	local want=through address
	! common_port "$BDF_A" "$(mlx5_bdf)" || want=bus
	answer_of_p2pdma register_and_stop "$DEV" | tee /tmp/answer
	grep "^$want" /tmp/answer
	adapter_start a "$DEV" "$BAR_A" 0 65536
	address=$(translation "$rkey" mkeys | grep -o '0x[0-9a-f]*[*]' | sed -n 1p)
	adapter_stop a
	# Its low bits are permissions.
	address=$((${address%[*]} & ~4095))
	note "p2pdma: $(cat /tmp/answer); MR at $(printf '%#x' $address), BAR at $(printf '%#x' "$(bus_address "$BDF_A")")"
	if [ -e "/sys/bus/pci/devices/$(mlx5_bdf)/iommu" ]; then
		[ $address != "$(bus_address "$BDF_A")" ]
	else
		[ $address = "$(bus_address "$BDF_A")" ]
	fi
}

# shellcheck disable=SC2034 # init's
TESTS="test_address_of_the_adapter test_host_sees_the_bytes test_unbind_under_a_writer"
