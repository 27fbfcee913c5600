# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid is of tests/guest/steps.sh
#
# Memory is revoked while the adapter is ill: it fails a UMR work request, by which mlx5 revokes,
# it does not answer commands, or its firmware is dead while DMA goes on. Pages that it may still
# access stay pinned, or a line of the log says that they do not; and every wait ends.

. ./steps.sh

# writer: starts one on the first BAR, and sees it write.
writer() {
	launch forever -m $((8 << 20)) "$BAR_A"
	still_writes
}
still_writes() {
	local before
	before=$(host_sum a)
	eventually changes "$before" || fail "the adapter does not write"
}

# unbind_waits PATTERN: begins to unbind the first BAR, in $unbinding. That has to wait, as the
# log says, and the memory stays pinned although the adapter writes.
unbind_waits() {
	log_allow 'does not revoke [0-9]+ bytes'
	unbind "$BDF_A" &
	unbinding=$!
	eventually log_has "mlx5_0 does not revoke .* bytes .*: $1); retrying"
	still_writes
	kill -0 "$unbinding"
	must_fail balanced
}

# A WARN_ON_ONCE of mlx5 is printed again.
warn_again() {
	connectx_refuses 'fails with syndrome 0x6'
	log_allow 'WARNING: .*mlx5r_umr_post_send_wait'
	echo 1 >/sys/kernel/debug/clear_warn_once
}

# The translation stays in the adapter, and mlx5 unmaps the memory all the same.
test_an_invalidation_fails() {
	local unbinding
	warn_again
	writer
	ask_host connectx fail-umr 1
	unbind_waits 'its driver has failed to invalidate the MR'
	# The deregistration works, and ends the access.
	ends "$pid"
	ended "$unbinding"
	eventually balanced
	must_fail log_has 'unpinned now'
	works_again "$BDF_A"
}

# invalidations N: as many threads, each of which invalidates a region of bench_memory.
invalidations() {
	exec python3 - "$1" <<'PYTHON'
import fcntl, sys, threading

memory = open("/dev/bench_memory")
threading.stack_size(65536)
threads = [threading.Thread(target=fcntl.ioctl, args=(memory, 0x6201, 1)) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all have returned")
PYTHON
}
# waiting PID N: the process has as many threads, beside the first.
waiting() {
	local tasks=(/proc/"$1"/task/*)
	[ ${#tasks[@]} -gt "$2" ]
}

# More tasks than mlx5 has requests in flight, while the adapter is slow: each returns, and none is taken
# for failed.
test_many_invalidations() {
	local count=200 revoking
	insmod "$MODS/external/tests/bench/bench_memory.ko"
	eventually test -c /dev/bench_memory
	launch hold -n $count -m 4096 -l 4096 /dev/bench_memory
	hold_umr
	invalidations $count >/tmp/invalidations 2>&1 &
	revoking=$!
	eventually waiting $revoking $count
	eventually umr_waits
	nap 2
	release_umr
	within 60 gone $revoking
	wait $revoking
	expect "all have returned" cat /tmp/invalidations
	expect 0 value_of "$PEERS/bench_memory/num_failed_fences"
	expect $count value_of "$PEERS/bench_memory/num_revocations"
	kill_and_wait "$pid"
	rmmod bench_memory
}

# fatal: the firmware is dead, mlx5 has noticed it, and does nothing until the function is reset.
fatal() {
	devlink health set "pci/$(mlx5_bdf)" reporter fw_fatal auto_recover false
	ask_host connectx fatal
	eventually log_has 'Fatal error 5 detected'
}

# reset_and_load BDF: what an administrator does then.
reset_and_load() {
	echo 1 >"/sys/bus/pci/devices/$1/reset"
	echo 1 >"/sys/bus/pci/devices/$1/remove"
	echo 1 >/sys/bus/pci/rescan
	load_mlx5
}

# What the driver says of an adapter with a fatal error: either cause is the first to be seen.
FATAL='\(it has reported a fatal error\|its driver has failed to invalidate the MR\)'

test_fatal_and_the_process_ends() {
	local unbinding bdf
	bdf=$(mlx5_bdf)
	writer
	fatal
	still_writes
	log_allow 'may still access [0-9]+ bytes'
	unbind_waits "$FATAL"
	ends "$pid"
	ended "$unbinding"
	# The key is still in the adapter.
	log_has 'mlx5_0 may still access .* bytes (it has reported a fatal error), .*: reset the device'
	eventually balanced
	reset_and_load "$bdf"
	works_again "$BDF_A"
}

test_fatal_and_the_function_is_removed() {
	local unbinding bdf
	bdf=$(mlx5_bdf)
	writer
	fatal
	unbind_waits "$FATAL"
	log_allow 'may still access [0-9]+ bytes'
	echo 1 >"/sys/bus/pci/devices/$bdf/remove"
	ended "$unbinding"
	log_has 'mlx5_0 is removed, and may still access .* bytes .*: reset the device'
	eventually balanced
	replace "$pid" "$BDF_A"
}

# mlx5 has the firmware reset the function, removes the RDMA device and adds it again.
test_fatal_and_the_driver_recovers() {
	recover_any_time
	writer
	log_allow 'may still access [0-9]+ bytes'
	ask_host connectx fatal
	eventually recovered
	log_has 'mlx5_0 is removed, and may still access .* bytes .*: reset the device'
	eventually balanced
	ends "$pid"
	comes_back
}

# The revocation needs no command: a process that waits for one does not delay it. At last the command
# fails: mlx5 keeps the slot until then, and would wait for it at a shutdown.
test_commands_are_not_answered() {
	local other
	writer
	# ALLOC_PD
	ask_host connectx ignore-command 0x800
	"$RDMA" write -l 4096 "$BAR_B" >/tmp/other 2>&1 &
	other=$!
	eventually answers_not
	unbind_in_time "$BDF_A"
	wait_line /tmp/forever 'remote access error'
	kill -0 "$other"
	ended "$pid" || true
	eventually balanced
	rebind "$BDF_A"
	ask_host connectx ignore-command 0
	eventually gone "$other"
	must_fail wait "$other"
	works_again
}
answers_not() { grep -q 'ALLOC_PD is not answered' "$OUT/connectx.log"; }
