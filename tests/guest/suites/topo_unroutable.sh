# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port, and a host bridge that may not route; in an arm64 guest behind
# an SMMUv3 as well.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_iommu test_p2pdma test_refused"
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
	# No page is lost.
	expect "$SIZE_A" cat "/sys/bus/pci/devices/$BDF_A/p2pmem/available"
}
