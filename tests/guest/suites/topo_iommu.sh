# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# As topo_bridge, behind an IOMMU: the DMA addresses of an MR are valid for its adapter
# alone, and only while the MR exists.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_translated test_p2pdma test_from_bar_to_bar test_old_iova test_old_iova_of_a_revoked_mr"

test_translated() {
	local bdf
	for bdf in "$NEAR" "$NEAR_TOO"; do
		expect DMA cat "/sys/bus/pci/devices/$bdf/iommu_group/type"
	done
}

test_p2pdma() { p2pdma_says "through the host bridge"; }

# iova: prints the start of the MR a in the IOMMU.
iova() {
	local dma
	dma=$(adapter_mr "$device" "$lkey" dma)
	echo $((${dma%%+*}))
}

# faulted IOVA: the kernel has reported a fault of a write by the adapter.
faulted() {
	log_since step |
		grep -E "DMAR: \[DMA Write.* device \[(0000:)?${NEAR#0000:}\] fault addr $(printf '%#x' "$1")"
}

# stale END SEED: the adapter uses an address after END. Before that the address is valid,
# which the test checks first.
stale() {
	local device iova before after end=$1
	log_allow 'DMAR: .*fault'
	device=$(adapter_at "$NEAR")
	in_a a "$device" 4096 4096
	iova=$(iova)
	adapter_start h "$device" host 0 4000
	adapter_say h fill "$2"
	adapter_dma "$device" "read $lkey $addr 4000"
	adapter_dma "$device" "raw-write $iova 4000"
	ask_host pattern a 4096 4000 "$2"
	adapter_say h fill "$(($2 + 1))"
	adapter_dma "$device" "read $lkey $addr 4000"
	"$end"
	before=$(sum)
	log_step stale
	adapter_dma "$device" "raw-write $iova 4000"
	eventually faulted "$iova"
	after=$(sum)
	[ "$before" = "$after" ] || fail "bytes behind the BAR change"
	ask_host pattern a 4096 4000 "$2"
	adapter_stop h a
}
dereg() { adapter_say a dereg; }
unbind_a() { unbind_in_time "$BDF_A"; }

test_old_iova() { stale dereg 51; }

test_old_iova_of_a_revoked_mr() {
	stale unbind_a 61
	rebind "$BDF_A"
}
