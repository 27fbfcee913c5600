# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Kernel lockdown, as with Secure Boot: BARs are as inaccessible as resourceN of sysfs.
#
# The last suite of a guest: lockdown cannot be disabled, and refuses unsigned modules.

. ./steps.sh

LOCKDOWN=/sys/kernel/security/lockdown

# A memory region from before keeps working; see the last test.
test_lock_down() {
	[ -e $LOCKDOWN ] || mount -t securityfs none /sys/kernel/security || true
	[ -e $LOCKDOWN ] || skip "this kernel has no lockdown"
	"$RDMA" write "$BAR_A"
	echo integrity >$LOCKDOWN
	grep -F '[integrity]' $LOCKDOWN
}

locked_down() { grep -qF '[integrity]' $LOCKDOWN 2>/dev/null || skip "this kernel has no lockdown"; }

# map FILE: prints the errno of mmap(2).
map() {
	python3 - "$1" <<'PYTHON'
import errno, mmap, sys

try:
    with open(sys.argv[1], "r+b", buffering=0) as f:
        mmap.mmap(f.fileno(), 4096)
    print("mapped")
except OSError as e:
    print(errno.errorcode[e.errno])
PYTHON
}

test_bars_cannot_be_mapped() {
	locked_down
	expect EPERM map "/sys/bus/pci/devices/$BDF_A/resource2"
	expect EPERM map "$BAR_A"
	balanced
}

test_allocations_cannot_be_mapped() {
	locked_down
	/mnt/programs/dm_atomic "$BAR_A" >/tmp/atomic 2>&1 || true
	cat /tmp/atomic
	grep 'Operation not permitted' /tmp/atomic
}

test_functions_cannot_be_bound() {
	locked_down
	unbind "$BDF_B"
	log_step bind
	must_fail bind "$BDF_B"
	log_since step | grep "$BDF_B: cannot be used: the kernel is locked down"
	[ ! -e "$BAR_B" ]
}
