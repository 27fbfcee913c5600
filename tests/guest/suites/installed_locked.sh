# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# An installed Debian system, booted with UEFI Secure Boot: shim knows the key of dkms(8), or of the site
# whose repository has the modules, as a machine owner's key (scripts/checks/installed). The kernel
# locks itself down.

. ./steps.sh
# shellcheck disable=SC2034 # init's
CHAIN=yes
. ./secure_boot.sh

CERTIFICATE=/var/lib/dkms/mok.pub SIGNER='DKMS module signing key'
[ -e $CERTIFICATE ] || CERTIFICATE=/etc/site.der SIGNER='Key of a site'
TESTS="test_key test_changed_module_is_refused test_modules_load"
# A driver in the manner of NVIDIA's, if DKMS has built it.
! modinfo vendor_client >/dev/null 2>&1 || TESTS+=" test_client_of_dkms_loads"
TESTS+=" test_io_peer_mem_binds_nothing"

setup() { load_stack; }

test_key() {
	locked_down "$SIGNER"
	(mokutil --test-key $CERTIFICATE || true) | grep 'is already enrolled'
}

test_changed_module_is_refused() {
	local file
	file=$(modinfo -n ib_peer_mem)
	# Modules of dkms(8) are compressed.
	cp "$file" "/tmp/${file##*/}"
	[[ $file != *.xz ]] || xz -d "/tmp/${file##*/}"
	changed_module_is_refused /tmp/ib_peer_mem.ko
}

test_modules_load() {
	expect "$SIGNER" modinfo -F signer ib_peer_mem
	modprobe ib_peer_mem
	# O: out of the tree; not E: unsigned.
	expect O cat /sys/module/ib_peer_mem/taint
	expect placed cat /sys/kernel/debug/ib_peer_mem/umem_hook
}

test_client_of_dkms_loads() {
	expect "DKMS module signing key" modinfo -F signer vendor_client
	modprobe vendor_client
	[ -d "$PEERS/vendor_client" ]
	rmmod vendor_client
}

test_io_peer_mem_binds_nothing() {
	modprobe io_peer_mem "ids=$IDS"
	io_peer_mem_binds_nothing
	rmmod io_peer_mem
	rmmod ib_peer_mem
}
