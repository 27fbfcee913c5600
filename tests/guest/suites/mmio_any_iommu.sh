# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's; those of mmio_any.sh
#
# mmio=any behind a strict IOMMU: a function that is unplugged, and a BAR that vfio-pci
# maps by huge pages.

. ./suites/mmio_any.sh

TESTS="test_hot_unplug test_vfio test_unload"

test_hot_unplug() {
	local device bdf bar from to seed unplugging
	begin "$DEV" "$NODE"
	ask_host unplug peer-a &
	unplugging=$!
	within 60 gone $unplugging
	wait $unplugging
	[ ! -e "/sys/bus/pci/devices/$BDF_A" ]
	dead
	finish
	ask_host plug peer-a a
	eventually test -e "/sys/bus/pci/devices/$BDF_A/driver"
	client_bind
}

# More than a huge page. A reset and low power unmap, and the device permits page faults again.
test_vfio() {
	local device bdf bar from to seed ends LENGTH=3000001
	vfio_bind "$BDF_B"
	trace_calls vmf_insert_pfn_pmd
	begin "$DEV" "vfio:$BDF_B:2" $((4 << 20))
	traced_calls >/tmp/calls
	grep vmf_insert_pfn_pmd /tmp/calls
	for ends in reset sleep; do
		adapter_say user $ends
		dead
		adapter_do user dereg reg
		start_writer
		still_writes
	done
	# The last mapping of the device and its file.
	adapter_say user unmap
	dead
	finish
	no_override "$BDF_B"
	bind "$BDF_B"
	eventually test -c "$BAR_B"
}
