# SPDX-License-Identifier: GPL-2.0
#
# UEFI Secure Boot for real (scripts/secure-boot): firmware with Microsoft's keys, Debian's shim, GRUB
# and kernel, which locks itself down. The modules are signed with a key that shim knows as a machine
# owner's key. With SECURE_BOOT=yes alone.

. ./steps.sh
# shellcheck disable=SC2034 # init's
CHAIN=yes

EXTERNAL=$MODS/external
SAMPLE=$EXTERNAL/samples/peer_client/peer_client_sample.ko
SSD=/sys/bus/pci/devices/$BDF_SSD

setup() {
	modprobe efivarfs
	mount -t efivarfs efivarfs /sys/firmware/efi/efivars
	mount -t securityfs none /sys/kernel/security
	load_stack
}

# The value of the variable comes after its attributes, four bytes.
is_on() { od -An -t u1 -j 4 -N 1 /sys/firmware/efi/efivars/SecureBoot-* | grep -x ' *1'; }

test_firmware_and_kernel() {
	is_on
	log_all | grep -o 'secureboot: Secure boot enabled'
	grep -F '[integrity]' /sys/kernel/security/lockdown
	log_all | grep -o 'Kernel is locked down from EFI Secure Boot'
	log_all | grep "integrity: Loaded X.509 cert 'Key of a site: "
	note "$(log_all | grep -o 'Kernel is locked down.*')"
}

test_signed_modules_load() {
	expect "Key of a site" modinfo -F signer "$MODS/ib_peer_mem.ko"
	load_core
	# O: out of the tree; not E: unsigned.
	expect O cat /sys/module/ib_peer_mem/taint
}

# ftrace, and the operations of devices, are not what lockdown restricts.
test_hooks_are_there() {
	expect placed cat /sys/kernel/debug/ib_peer_mem/umem_hook
	log_all | grep "ib_peer_mem: $DEV: serves peer memory by "
}

test_client_of_a_driver() {
	insmod "$SAMPLE"
	eventually test -c /dev/peer_client_sample
	"$RDMA" write -o 100 -l 50000 /dev/peer_client_sample
	"$RDMA" write /dev/peer_client_sample
	expect 2 cat "$PEERS/peer_client_sample/num_alloc_mrs"
	expect 2 cat "$PEERS/peer_client_sample/num_dealloc_mrs"
	rmmod peer_client_sample
}

test_memory_buffer_of_an_ssd() {
	modprobe nvme
	load_io_with p2pmem=1
	eventually test -e "$SSD/p2pmem/allocate"
	eventually test -b /dev/nvme0n1
	"$RDMA" write -o 12345 -l 654321 -s 52 "$SSD/p2pmem/allocate"
}
