# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A Debian system that was installed as README.md says, booted with UEFI Secure Boot: shim knows the key
# of dkms(8) as a machine owner's key (scripts/checks/installed). The kernel locks itself down.

. ./steps.sh

LOCKDOWN=/sys/kernel/security/lockdown

setup() { load_stack; }

test_key_of_dkms() {
	grep -F '[integrity]' $LOCKDOWN
	dmesg | grep 'Kernel is locked down from EFI Secure Boot'
	dmesg | grep "integrity: Loaded X.509 cert 'DKMS module signing key"
	(mokutil --test-key /var/lib/dkms/mok.pub || true) | grep 'is already enrolled'
	note "$(dmesg | grep -o "cert 'DKMS module signing key.*")"
}

# Its signature is of other bytes.
test_changed_module_is_refused() {
	xz -dc "$(modinfo -n ib_peer_mem)" >/tmp/changed.ko
	printf x | dd of=/tmp/changed.ko bs=1 seek=70000 conv=notrunc status=none
	refuses 'Key was rejected by service' insmod /tmp/changed.ko
	must_fail loaded ib_peer_mem
}

test_modules_of_dkms_load() {
	expect "DKMS module signing key" modinfo -F signer ib_peer_mem
	modprobe ib_peer_mem
	# O: out of the tree; not E: unsigned.
	expect O cat /sys/module/ib_peer_mem/taint
	expect placed cat /sys/kernel/debug/ib_peer_mem/umem_hook
}

# A driver in the manner of NVIDIA's.
test_client_of_dkms_loads() {
	expect "DKMS module signing key" modinfo -F signer vendor_client
	modprobe vendor_client
	[ -d "$PEERS/count_client" ]
	rmmod vendor_client
}

# As io_peer_mem.rst says.
test_io_peer_mem_binds_nothing() {
	modprobe io_peer_mem "ids=$IDS"
	log_since test | grep "io_peer_mem $BDF_A: cannot be used: the kernel is locked down"
	expect "" ls "$PEERS"
	rmmod io_peer_mem
	rmmod ib_peer_mem
}
