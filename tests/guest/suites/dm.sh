# SPDX-License-Identifier: GPL-2.0
#
# Device memory with the semantics of ibv_alloc_dm(3), through libiopm: dm.py, and the program dm_rust.

. ./steps.sh

dm() { python3 dm.py "$1" "$BAR_A" "$DEV" "$(gid_index)"; }
# in_bar TEST: afterwards the whole BAR is free and no MR is left.
in_bar() {
	dm "$1"
	balanced
	all_free
}

# each TEST...: one after the other.
each() {
	local test
	for test; do
		log_step "$test"
		in_bar "$test"
	done
}

# The list and queries of the library, also with structures that are larger or smaller than its own;
# exports as dma-bufs; allocations with flags and without.
test_library() { each list query dmabuf flags; }

# Errors, and the memory that is free; copies at any offset on both sides.
test_allocations() { each alloc copy; }

# SCM_RIGHTS; EBUSY while the other process has it mapped.
test_import_by_another_process() { in_bar import; }

# mlockall(MCL_FUTURE) has accessed the library's mapping.
test_locked_memory() { in_bar locked; }

# WRITE, READ, fetch-and-add, compare-and-swap by offset, to rkey and lkey.
# The last WRITE goes past the end.
test_zero_based_region() {
	connectx_refuses 'request refused: mkey *: Bounds'
	connectx_refuses 'fails with syndrome 0x13'
	in_bar rdma
}

# EINVAL without ZERO_BASED or out of bounds; EBUSY under an MR, which keeps its allocation.
test_regions() { each reg mr_keeps; }

# Versions, sizes, pointers, double free.
test_abi() { in_bar abi | tee /tmp/abi; grep -qx "$BDF_A" /tmp/abi; }

# Skips where a program of 64 bits cannot make 32-bit system calls.
test_32_bit() {
	grep -q int80_emulation /proc/kallsyms || skip "no 32-bit system calls of 64-bit programs"
	in_bar compat
}

# Mappings, read(2) and write(2), also of a BAR that is open for reading; calls that fail leak nothing.
test_files() { each map read_only read_write no_leak; }

# Other allocations and mappings of the BAR go on while DM_FREE looks for users of the pages.
test_free_holds_up_no_others() {
	local hold=/sys/module/hold_call_test/parameters free
	insmod "$MODS/external/tests/symbols/hold_call_test.ko" armed=1
	dm locked >/tmp/free 2>&1 &
	free=$!
	eventually grep -qx 1 $hold/held
	dm flags
	dm read_write
	"$RDMA" write "$BAR_A"
	expect 1 cat $hold/held
	echo 0 >$hold/held
	ended $free
	rmmod hold_call_test
	all_free
}

# Clearing much memory takes seconds, and ends with the process.
test_killed_while_memory_is_cleared() {
	local hold=/sys/module/hold_call_test/parameters pid sum
	printf 'left here' | dd of="$OUT/bar-a" conv=notrunc status=none
	insmod "$MODS/external/tests/symbols/hold_call_test.ko" symbol=ext_p2p_clear armed=1
	python3 -c "import mmap, os; mmap.mmap(os.open('$BAR_A', os.O_RDWR), 32 << 20)" &
	pid=$!
	eventually grep -qx 1 $hold/held
	sum=$(host_sum a)
	kill -9 $pid
	echo 0 >$hold/held
	eventually gone $pid
	expect "$sum" host_sum a
	rmmod hold_call_test
	all_free
}

# With the flag and without; then with the other policies of zero=.
test_zero_flag() { in_bar zero; }

test_zero_policies() {
	local policy
	for policy in never 2:free; do
		echo "$policy" >"$PARAMETERS/zero"
		unbind_and_bind "$BDF_A"
		ZERO=${policy#2:} in_bar zero
	done
	must_fail eval "echo always >$PARAMETERS/zero" 2>&1 | grep 'Invalid argument'
	# Of another BAR.
	echo never,2:alloc >"$PARAMETERS/zero"
	unbind_and_bind "$BDF_A"
	in_bar zero
	echo >"$PARAMETERS/zero"
	unbind_and_bind "$BDF_A"
}

# A guest sees the difference in the page protection alone.
test_write_combining() {
	insmod "$MODS/external/tests/symbols/caching_test.ko"
	in_bar combine
	rmmod caching_test
}

test_copies_less_if_a_signal_comes() { in_bar signals; }

# The CPU changes a word meanwhile.
test_words_are_copied_whole() { in_bar words; }

test_quota() {
	local pid
	echo $((4 << 20)) >"$PARAMETERS/quota"
	in_bar quota
	# Each user has a quota.
	launch hold -n 1 -m $((4 << 20)) "$BAR_A"
	must_fail "$RDMA" reg -m 4096 "$BAR_A" 2>&1 | grep 'Disk quota exceeded'
	chmod a+rw "$BAR_A"
	setpriv --reuid 12345 python3 -c "import mmap, os
mmap.mmap(os.open('$BAR_A', os.O_RDWR), 4 << 20)[0:4] = b'data'"
	kill_and_wait "$pid"
	eventually balanced
	echo >"$PARAMETERS/quota"
	all_free
}

# A user with subordinate uids has one quota, in a user namespace and outside.
# not on debug
test_quota_in_a_user_namespace() {
	echo $((4 << 20)) >"$PARAMETERS/quota"
	chmod a+rw "$BAR_A"
	python3 - "$BAR_A" <<'PYTHON' | tee /tmp/namespace
from calls import *

CLONE_NEWUSER = 0x10000000
fd = os.open(sys.argv[1], os.O_RDWR)
ready, mapping = os.pipe(), os.pipe()


def attempt(what, size):
    print(what, answer(mapped, fd, size), flush=True)


def unshare():
    if LIBC.unshare(CLONE_NEWUSER):
        print("unshare:", os.strerror(ctypes.get_errno()), flush=True)
        os._exit(1)


child = os.fork()
if not child:
    # A process below another root than that of the mount namespace must not create one.
    os.chroot("/proc/1/root")
    os.setresuid(12345, 12345, 12345)
    mapped(fd, 3 << 20)
    unshare()
    os.write(ready[1], b"1")
    os.read(mapping[0], 1)
    os.setresuid(5, 5, 5)
    attempt("the rest", 1 << 20)
    attempt("more", 2 << 20)
    # Its owner is the subordinate uid.
    unshare()
    attempt("in a namespace within it", 2 << 20)
    os._exit(0)
os.close(ready[1])
if os.read(ready[0], 1):
    for ids, lines in (("uid", "0 12345 1\n5 200005 1\n"), ("gid", "0 0 1\n")):
        with open(f"/proc/{child}/{ids}_map", "w") as f:
            f.write(lines)
    os.write(mapping[1], b"1")
os.waitpid(child, 0)
PYTHON
	echo >"$PARAMETERS/quota"
	expect "the rest ok
more EDQUOT
in a namespace within it EDQUOT" cat /tmp/namespace
	all_free
}

test_many_processes() { in_bar stress; }

# start_gone: a process with an allocation in use, one never accessed, and one under an MR.
start_gone() {
	revocation_is_refused
	# No output of an earlier process may be read for that of the new one.
	: >/tmp/gone
	python3 dm.py gone "$BAR_A" "$DEV" "$(gid_index)" >/tmp/gone 2>&1 &
	pid=$!
	wait_line /tmp/gone '^running'
}

test_killed_with_allocations() {
	local pid
	start_gone
	must_fail all_free
	kill_and_wait -9 "$pid"
	eventually balanced
	eventually all_free
}

test_unbind_with_allocations() {
	local pid
	for _ in 1 2; do
		start_gone
		sleep 0.5
		unbind_in_time "$BDF_A"
		ended "$pid" || { cat /tmp/gone; false; }
		cat /tmp/gone
		grep -x 'copy to removed memory: ENODEV' /tmp/gone
		grep -x 'gone: done' /tmp/gone
		eventually balanced
		rebind "$BDF_A"
		all_free
	done
}

test_allocation_pins_the_module() {
	local pid
	start_gone
	refuses 'is in use' rmmod io_peer_mem
	unbind_in_time "$BDF_A"
	ended "$pid"
	timeout 60 rmmod io_peer_mem
	load_bars
}

test_example_in_rust() {
	/mnt/programs/dm_rust "$BAR_A" "$DEV" | tee /tmp/example
	grep -x 'read back: hello, device' /tmp/example
	grep -x 'all of it is free again' /tmp/example
	all_free
}
