# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid is that of start
#
# Two peers and an SSD below one PCIe switch: direct I/O between them, resets, and errors from
# which all have to recover together. Not for the debug kernel: it has neither nvme nor AER, and
# loses the configuration space below QEMU's switch.

. ./storage.sh

DISK=/dev/nvme0n1
A=/sys/bus/pci/devices/$BDF_A
SSD=/sys/bus/pci/devices/$BDF_SSD

setup() {
	load_stack
	load_bars
	modprobe nvme
	eventually test -b $DISK
	head -c 4M /dev/urandom >/tmp/disk
	dd if=/tmp/disk of=$DISK bs=1M oflag=direct status=none
}

# --- resets and errors ---

# users: a writer, an idle MR on memory of p2pmem/allocate, and a mapping, of A.
users() {
	# First: while a process has memory of the BAR there is none in the kernel's pool.
	launch hold -n 1 "$A/p2pmem/allocate"
	holder=$pid
	start forever forever -t 600 "$BAR_A"
	writer=$pid
	python3 - "$BAR_A" >/tmp/mapping <<'PYTHON' &
import mmap, os, sys, time

memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 20, mmap.MAP_SHARED)
memory[0] = 1
print("mapped", flush=True)
while not os.path.exists("/tmp/look"):
    time.sleep(0.1)
print("read", memory[0], flush=True)
PYTHON
	mapping=$!
	wait_line /tmp/forever '^running'
	wait_line /tmp/mapping '^mapped'
	log_step "stop"
}

# revoked: no user has access any more, and A can be used by others again.
revoked() {
	local rc=0
	wait_line /tmp/forever 'remote access error'
	eventually balanced
	touch /tmp/look
	wait "$mapping" || rc=$?
	rm /tmp/look
	[ $rc = $((128 + 7)) ] || fail "the mapping: $rc, $(cat /tmp/mapping)"
	kill "$writer" "$holder"
	ended "$writer"
	wait "$holder" || true
	eventually log_line "$BDF_A: has recovered"
	log_line "$BDF_A: an error or a reset: its memory is revoked"
	"$RDMA" write -o 4097 -l 700003 -s 84 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
	"$RDMA" write "$A/p2pmem/allocate"
	"$RDMA" write "$BAR_B"
	eventually balanced
	eventually all_free "$BDF_A"
}
log_line() { grep -q "$1" < <(log_since step); }

# The SSD beside it has the bytes that setup has written; its driver resets it after an error.
ssd_works() { dd if=$DISK bs=1M count=4 iflag=direct status=none | cmp - /tmp/disk; }

test_reset() {
	local writer holder mapping
	users
	echo 1 >"$A/reset"
	revoked
	ssd_works
}

# Memory that is freed when the device does not answer is not cleared then.
test_zero_free_after_a_reset() {
	echo free >"$PARAMETERS/zero"
	unbind_and_bind "$BDF_A"
	launch hold -n 1 -m $((4 << 20)) "$BAR_A"
	echo 1 >"$A/reset"
	kill_and_wait "$pid"
	# Now the bytes of an earlier user, as if the clearing had failed.
	printf 'left here' | dd of="$OUT/bar-a" conv=notrunc status=none
	python3 - "$BAR_A" <<'PYTHON'
import mmap, os, sys

memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4 << 20, mmap.MAP_SHARED)
if any(memory[:4096]):
    sys.exit("not cleared: %r" % memory[:16])
PYTHON
	echo >"$PARAMETERS/zero"
	unbind_and_bind "$BDF_A"
}

# An allocation that begins before a reset and would end after the recovery: a process may have had
# its pages meanwhile.
test_allocation_across_a_reset() {
	local hold=/sys/module/hold_call_test/parameters mapper
	insmod "$MODS/external/tests/symbols/hold_call_test.ko" symbol=ext_p2p_clear armed=1
	python3 -c "import mmap, os; mmap.mmap(os.open('$BAR_A', os.O_RDWR), 4096)" >/tmp/across 2>&1 &
	mapper=$!
	eventually grep -qx 1 $hold/held
	log_step "across"
	echo 1 >"$A/reset"
	eventually log_line "$BDF_A: has recovered"
	expect 1 cat $hold/held
	echo 0 >$hold/held
	must_fail wait $mapper
	grep 'No such device' /tmp/across
	rmmod hold_call_test
	"$RDMA" write "$BAR_A"
}

# A fatal error of the root port: its bus is reset.
test_fatal_error() {
	local writer holder mapping
	users
	ask_host pci_error root DLP
	eventually log_line 'device recovery successful'
	revoked
	eventually ssd_works
}

# An error that is not fatal: no function asks for a reset.
test_error_without_a_reset() {
	local writer holder mapping
	users
	ask_host pci_error root COMP_TIME
	eventually log_line 'device recovery successful'
	revoked
	ssd_works
	must_fail log_line 'link has been reset'
}

# command BDF: memory space (2) and bus mastering (4) in the command register.
command() { echo $((0x$(setpci -s "$1" COMMAND) & 6)); }

# A function below the same port that has no driver, as io_peer_mem without these callbacks: none
# recovers. What is stopped stays so, and cannot be bound again before the bus is scanned.
test_no_recovery() {
	local switch
	switch=$(realpath "$A/../..")
	[ -e "$switch/class" ]
	unbind "$BDF_A"
	log_step "no recovery"
	ask_host pci_error root DLP
	eventually log_line 'device recovery failed'
	log_line "$BDF_A: AER: can't recover (no error_detected callback)"
	must_fail log_line 'has recovered'
	refuses 'No such device' "$RDMA" reg "$BAR_B"
	refuses 'Input/output error' bind "$BDF_A"
	log_line "$BDF_A: cannot be used: it does not answer at the addresses of its BARs"
	echo 1 >"$switch/remove"
	[ ! -e "$SSD" ]
	echo 1 >/sys/bus/pci/rescan
	find_bars
	"$RDMA" write "$BAR_A"
	"$RDMA" write "$BAR_B"
	eventually ssd_works

	# The functions are new: the kernel has found them without memory space. One was a bus master
	# before it was bound.
	unbind "$BDF_A"
	setpci -s "$BDF_A" COMMAND=6
	bind "$BDF_A"
	log_step "recovery again"
	expect 2 command "$BDF_A"
	ask_host pci_error root DLP
	eventually log_line 'device recovery successful'
	expect 2 command "$BDF_A"
	"$RDMA" write "$BAR_A"
	eventually ssd_works
}
