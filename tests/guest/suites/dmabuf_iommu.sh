# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's and dmabuf's; rkey is of tests/guest/adapter.sh
#
# Dma-bufs behind a strict IOMMU: those of the suite dmabuf, and BARs that vfio-pci exports, which
# processes cannot map.

. ./suites/dmabuf.sh

EXPORTERS='test pieces
udmabuf split'
TESTS="test_exporters test_moves_under_a_writer test_revoked_under_a_writer test_vfio
	test_vfio_and_pinning_drivers"

vfio_unbind() {
	no_override "$1"
	rebind "$1"
}

# By its descriptor, and by the address of a name.
test_vfio() {
	local kind
	vfio_bind "$BDF_B"
	for kind in dmabuf named; do
		adapter_start user -x "$(gid_index)" -s none -m "$SIZE" "$DEV" "$kind:vfio:$BDF_B:2" 100 50001
		adapter_say user write 17
		ask_host pattern b 100 50001 17 0
		adapter_say user read 17
		adapter_kill user
		eventually nothing_registered
		no_key_reaches
	done
	vfio_unbind "$BDF_B"
}

# vfio-pci can revoke: an importer that pins is refused, also by its address in a umem.
test_vfio_and_pinning_drivers() {
	load_adapter pinned
	vfio_bind "$BDF_B"
	expect "error EOPNOTSUPP" adapter_start none -s none -m "$SIZE" edu0 "dmabuf:vfio:$BDF_B:2" 0 4096
	vfio_unbind "$BDF_B"
	unload_adapter
}
