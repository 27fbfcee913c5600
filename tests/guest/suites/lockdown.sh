# SPDX-License-Identifier: GPL-2.0
#
# Kernel lockdown, as with Secure Boot: BARs are as inaccessible as resourceN of sysfs.
#
# The last suite of a guest: lockdown cannot be disabled, and refuses unsigned modules.

. ./steps.sh

# shellcheck disable=SC2034 # init's
CHAIN=yes

LOCKDOWN=/sys/kernel/security/lockdown

# allocation: allocates memory by ioctl(2), and copies by read(2) and write(2); prints an errno for
# each, before and after lockdown.
allocation() {
	exec python3 - "$BAR_A" $LOCKDOWN <<'PYTHON'
import time
from calls import *

def answers():
    print(answer(allocate, bar, 4096), answer(os.pread, fd, 8, 0), answer(os.pwrite, fd, b"lockdown", 0), flush=True)

bar = os.open(sys.argv[1], os.O_RDWR)
fd = allocate(bar, 4096)
answers()
while "[integrity]" not in open(sys.argv[2]).read():
    time.sleep(0.05)
answers()
PYTHON
}

# A memory region from before keeps working; see the last test. A file from before does not.
test_lock_down() {
	local pid
	[ -e $LOCKDOWN ] || mount -t securityfs none /sys/kernel/security || true
	[ -e $LOCKDOWN ] || skip "this kernel has no lockdown"
	"$RDMA" write "$BAR_A"
	allocation >/tmp/allocation 2>&1 &
	pid=$!
	wait_line /tmp/allocation .
	expect "ok ok ok" cat /tmp/allocation
	echo integrity >$LOCKDOWN
	grep -F '[integrity]' $LOCKDOWN
	ended $pid
	expect "EPERM EPERM EPERM" tail -n 1 /tmp/allocation
}

locked_down() {
	[ -e $LOCKDOWN ] || skip "this kernel has no lockdown"
	grep -F '[integrity]' $LOCKDOWN
}

cannot_map() {
	must_fail python3 -c "import mmap; bar = open('$1', 'r+b', 0); mmap.mmap(bar.fileno(), 4096)" 2>&1 |
		grep 'Operation not permitted'
}

test_bars_cannot_be_mapped() {
	locked_down
	cannot_map "/sys/bus/pci/devices/$BDF_A/resource2"
	cannot_map "$BAR_A"
	balanced
}

test_functions_cannot_be_bound() {
	locked_down
	unbind "$BDF_B"
	logs "$BDF_B: cannot be used: the kernel is locked down" must_fail bind "$BDF_B"
	[ ! -e "$BAR_B" ]
}
