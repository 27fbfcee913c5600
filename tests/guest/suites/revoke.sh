# SPDX-License-Identifier: GPL-2.0
#
# Revocation of memory that is in use.

. ./steps.sh

# shellcheck disable=SC2034 # init's
TEST_LIMIT=$((TEST_LIMIT + 10 * ROUNDS))

test_unbind_under_a_writer() {
	local pid before after took
	launch forever -m $((8 << 20)) -t 600 "$BAR_A"
	# The sums below prove nothing unless the writer writes.
	before=$(sum)
	eventually changes "$before" || fail "the writer does not write"

	took_ms unbind_in_time "$BDF_A"
	before=$(sum)
	note "unbind under a running writer returned after $took ms"
	# What has kept it waiting is in the log: bad-log has the lines of a fence that failed.
	wait_line /tmp/forever 'remote access error'
	note "the writer: $(grep 'remote access' /tmp/forever)"

	# The writer continues with the keys of its revoked MR.
	tries_again forever
	after=$(sum)
	[ "$before" = "$after" ] || fail "bytes behind the BAR change after the unbind"
	kill "$pid"
	ended "$pid"
	grep -x 'deregistered' /tmp/forever
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the unbind"
	note "no byte of the BAR changed after that, $(grep 'still revoked' /tmp/forever)"
	eventually balanced
	[ "$(counter num_free_callbacks)" -gt 0 ]
	[ ! -e "$BAR_A" ]
	rebind "$BDF_A"
	"$RDMA" write -o 99 -l 100000 "$BAR_A"
}

# Reads as well, by which memory of the next user would leak, and no checksum would change.
test_unbind_under_a_reader() {
	local pid
	launch forever -g -m $((8 << 20)) -t 600 "$BAR_A"
	unbind_in_time "$BDF_A"
	wait_line /tmp/forever '^read [0-9]+: remote access error'
	tries_again forever
	kill "$pid"
	ended "$pid"
	note "the reader: $(grep -E '^read|still revoked' /tmp/forever | paste -sd ' ')"
	eventually balanced
	rebind "$BDF_A"
}

test_unbind_many_times() {
	local pid rounds=${ROUNDS:-10}
	[ "$KIND" != debug ] || rounds=${ROUNDS:-3}
	while ((rounds-- > 0)); do
		launch forever "$BAR_A"
		unbind_in_time "$BDF_A"
		ended "$pid"
		rebind "$BDF_A"
	done
	eventually balanced
}

# The RDMA device is deleted while MRs exist. They are revoked before its driver knows.
test_link_deleted_with_mrs() {
	local pid delete
	launch hold -n 5 -o 1000 -l 100000 "$BAR_A"
	remove_device &
	delete=$!
	eventually balanced
	cat /sys/kernel/debug/ib_peer_mem/revocations
	expect "$DEV 5 500000 the device was removed" lost "$pid"
	kill -0 "$pid"
	kill_and_wait "$pid"
	ended "$delete"
	balanced
	add_device
	"$RDMA" write "$BAR_A"
}

# Each fence of soft RoCE needs a Tasks RCU grace period; one serves all MRs of the device.
# not on debug
test_link_deleted_with_many_mrs() {
	local pid delete
	[ "$DEV" = rxe0 ] || skip "not soft RoCE"
	launch hold -n 12 -o 1000 -l 100000 "$BAR_A"
	trace_calls synchronize_rcu_tasks
	remove_device &
	delete=$!
	eventually balanced
	traced_calls | tee /tmp/calls
	expect 1 grep -c 'synchronize_rcu_tasks <-' /tmp/calls
	kill_and_wait "$pid"
	ended "$delete"
	add_device
}
