# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a kernel shows that was booted with UEFI Secure Boot: steps of the suites secure_boot and
# installed_locked.

LOCKDOWN=/sys/kernel/security/lockdown

# locked_down NAME: the kernel has locked itself down, and knows the key of this name.
locked_down() {
	grep -F '[integrity]' $LOCKDOWN
	dmesg | grep -o 'Kernel is locked down from EFI Secure Boot'
	dmesg | grep "integrity: Loaded X.509 cert '$1: "
	note "$(dmesg | grep -o 'Kernel is locked down.*'); $(dmesg | grep -o "cert '$1.*")"
}

# changed_module_is_refused FILE: with one changed byte, so that the signature is of other bytes.
changed_module_is_refused() {
	cp "$1" /tmp/changed.ko
	printf x | dd of=/tmp/changed.ko bs=1 seek=70000 conv=notrunc status=none
	must_fail cmp -s "$1" /tmp/changed.ko
	refuses 'Key was rejected by service' insmod /tmp/changed.ko
	must_fail loaded ib_peer_mem
}

# io_peer_mem_binds_nothing: since the test began; as io_peer_mem.rst says.
io_peer_mem_binds_nothing() {
	log_since test | grep "io_peer_mem $BDF_A: cannot be used: the kernel is locked down"
	[ ! -e /dev/io_peer_mem ] || expect "" ls /dev/io_peer_mem
	expect "" ls "$PEERS"
}
