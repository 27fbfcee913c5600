# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A Debian system that was installed as README.md says, booted with UEFI Secure Boot: shim knows the key
# of dkms(8) as a machine owner's key (scripts/checks/installed). The kernel locks itself down.

. ./steps.sh
. ./secure_boot.sh

setup() { load_stack; }

test_key_of_dkms() {
	locked_down 'DKMS module signing key'
	(mokutil --test-key /var/lib/dkms/mok.pub || true) | grep 'is already enrolled'
}

test_changed_module_is_refused() {
	xz -dc "$(modinfo -n ib_peer_mem)" >/tmp/ib_peer_mem.ko
	changed_module_is_refused /tmp/ib_peer_mem.ko
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

test_io_peer_mem_binds_nothing() {
	modprobe io_peer_mem "ids=$IDS"
	io_peer_mem_binds_nothing
	rmmod io_peer_mem
	rmmod ib_peer_mem
}
