# SPDX-License-Identifier: GPL-2.0
#
# An installed Debian system, booted with UEFI Secure Boot: shim knows the key of dkms(8), or of the site
# whose repository has the modules, as a machine owner's key (scripts/checks/installed). The kernel
# locks itself down: it has no other keys for modules. The suite secure_boot has what it then refuses.

. ./steps.sh

SIGNER='DKMS module signing key'
[ -e /var/lib/dkms/mok.pub ] || SIGNER='Key of a site'
TESTS="test_modules_load"
# A driver in the manner of NVIDIA's, if DKMS has built it.
! modinfo vendor_client >/dev/null 2>&1 || TESTS+=" test_client_of_dkms_loads"

setup() { load_stack; }

test_modules_load() {
	grep -F '[integrity]' /sys/kernel/security/lockdown
	expect "$SIGNER" modinfo -F signer ib_peer_mem
	modprobe ib_peer_mem
	# O: out of the tree; not E: unsigned.
	expect O cat /sys/module/ib_peer_mem/taint
	expect placed cat /sys/kernel/debug/ib_peer_mem/umem_hook
}

test_client_of_dkms_loads() {
	expect "$SIGNER" modinfo -F signer vendor_client
	modprobe vendor_client
	[ -d "$PEERS/vendor_client" ]
	rmmod vendor_client
}
