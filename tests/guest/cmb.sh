# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The controller memory buffer of an SSD, under the stock nvme driver. Processes map it from
# p2pmem/allocate in sysfs.

SSD=/sys/bus/pci/devices/$BDF_SSD
CMB=$SSD/p2pmem/allocate

# The driver uses some of the buffer for its queues.
find_ssd() {
	eventually test -e "$CMB"
	eventually test -b /dev/nvme0n1
	cat "$SSD/p2pmem/available" >/tmp/available
}
# Another suite of this boot may have left the SSD without a driver. The driver probes it in the
# background, so that the two may meet.
load_ssd() {
	modprobe nvme
	[ -e "$SSD/driver" ] || echo "$BDF_SSD" >/sys/bus/pci/drivers/nvme/bind || true
	find_ssd
}
# The free memory is the same as before the tests.
all_free() { cmp "$SSD/p2pmem/available" /tmp/available; }
bind_ssd() {
	echo "$BDF_SSD" >/sys/bus/pci/drivers/nvme/bind
	find_ssd
}

# The disk has only zeros, and no byte of its buffer or of a BAR.
ssd_reads_zeros() {
	dd if=/dev/nvme0n1 of=/tmp/read bs=1M count=16 iflag=direct
	cmp -n $((16 << 20)) /tmp/read /dev/zero
	rm /tmp/read
}

nvme_is_stock() {
	readlink "$SSD/driver" | grep '/nvme$'
	modinfo -F filename nvme | grep "^/lib/modules/$(uname -r)/kernel/drivers/nvme/"
	note "nvme of the distribution, controller memory buffer of $(($(cat "$SSD/p2pmem/size") >> 20)) MiB"
}
