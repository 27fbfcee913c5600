# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port, and a host bridge that may not route; in an arm64 guest behind
# an SMMUv3 as well.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_layout test_iommu test_p2pdma test_refused test_adapter_still_works test_peer_still_works"
SMMU=$(echo /sys/class/iommu/smmu3*)

# With the SMMU each function is in a domain that translates; else there is no IOMMU.
test_iommu() {
	local bdf group
	for bdf in "$BDF_A" "$NEAR" "$NEAR_TOO"; do
		group=/sys/bus/pci/devices/$bdf/iommu_group
		if [ -e "$SMMU" ]; then expect DMA cat "$group/type"; else [ ! -e "$group" ]; fi
	done
	[ ! -e "$SMMU" ] || note "behind ${SMMU##*/}"
}

test_p2pdma() { p2pdma_says "not supported"; }

test_refused() {
	refused "$(adapter_at "$NEAR")"
	# The kernel logs its line once; ours is logged each time.
	refused "$(adapter_at "$NEAR")"
	refused "$(adapter_at "$NEAR_TOO")"
}

# The adapter still reaches host memory.
test_adapter_still_works() {
	local device
	device=$(adapter_at "$NEAR")
	adapter_start h "$device" host 0 5000
	adapter_say h fill 41
	to_host "$device" 41
	adapter_stop h
}

# No page is lost: a software device can use the whole BAR. On arm64 it gets none.
test_peer_still_works() {
	expect "$SIZE_A" cat "/sys/bus/pci/devices/$BDF_A/p2pmem/available"
	if [ "$MACHINE" = aarch64 ]; then
		/mnt/programs/cpu_copy "$BAR_A"
		return
	fi
	load_stack
	"$RDMA" reg -m "$SIZE_A" "$BAR_A" | grep -x 'registration: ok'
	"$RDMA" write -o "$OFFSET" -l "$LENGTH" -s 42 "$BAR_A"
	ask_host pattern a "$OFFSET" "$LENGTH" 42
	eventually balanced
}
