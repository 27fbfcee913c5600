# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Memory taken away while it is in use.

. ./steps.sh

# sum: of all bytes behind the first BAR, as the host has them.
sum() { host_sum a; }

test_unbind_under_a_writer() {
	local pid before after began took
	start forever forever -m $((8 << 20)) -t 60 "$BAR_A"
	wait_line /tmp/forever '^running'
	# Else the sums below would prove nothing.
	before=$(sum)
	sleep 0.2
	after=$(sum)
	[ "$before" != "$after" ] || fail "the writer does not write"

	began=$(date +%s%N)
	unbind_in_time "$BDF_A"
	took=$((($(date +%s%N) - began) / 1000000))
	before=$(sum)
	note "unbind under a running writer returned after $took ms"
	# Only a kernel that is as fast as users have it has a figure to show.
	[ "$KIND" = debug ] || [ $took -lt 10000 ]
	wait_line /tmp/forever 'remote access error'
	note "the writer: $(grep 'remote access' /tmp/forever)"

	# The writer goes on trying, with the keys of its dead MR.
	sleep 1
	kill -0 "$pid"
	after=$(sum)
	[ "$before" = "$after" ] || fail "bytes behind the BAR change after the unbind"
	kill "$pid"
	ended "$pid"
	grep -x 'deregistered' /tmp/forever
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the unbind"
	note "no byte of the BAR changed after that, $(grep 'still revoked' /tmp/forever)"
	eventually balanced
	[ "$(counter num_free_callbacks)" -gt 0 ]
}

test_bind_again() {
	[ ! -e "$BAR_A" ]
	bind "$BDF_A"
	find_bars
	"$RDMA" write -o 99 -l 100000 "$BAR_A"
}

# The mapping is gone with the device: whoever touches it gets SIGBUS, no more.
test_unbind_with_mrs_that_sleep() {
	local pid
	start hold hold -n 5 "$BAR_A"
	wait_line /tmp/hold '^holding 5'
	unbind_in_time "$BDF_A"
	kill -0 "$pid"
	eventually balanced
	kill "$pid"
	wait "$pid" || true
	eventually nothing_registered
	bind "$BDF_A"
	find_bars
}

# Other devices go on.
test_unbind_leaves_the_other() {
	local pid
	start forever forever "$BAR_B"
	wait_line /tmp/forever '^running'
	unbind "$BDF_A"
	sleep 0.5
	kill -0 "$pid"
	must_fail grep error /tmp/forever
	unbind "$BDF_B"
	ended "$pid"
	bind "$BDF_A"
	bind "$BDF_B"
	find_bars
}

test_unbind_many_times() {
	local pid rounds=10
	[ "$KIND" != debug ] || rounds=3
	while ((rounds-- > 0)); do
		start forever forever "$BAR_A"
		wait_line /tmp/forever '^running'
		unbind_in_time "$BDF_A"
		ended "$pid"
		bind "$BDF_A"
		find_bars
	done
	eventually balanced
}

# The adapter goes, with MRs that live. The stock rxe has no way to take itself from
# a process, so the deletion waits for its end; our MRs are revoked before that.
test_link_deleted_with_mrs() {
	local pid delete
	start hold hold -n 5 -o 1000 -l 100000 "$BAR_A"
	wait_line /tmp/hold '^holding 5'
	rdma link delete rxe0 &
	delete=$!
	eventually balanced
	kill -0 "$pid"
	kill "$pid"
	wait "$pid" || true
	ended "$delete"
	balanced
	add_rxe
	"$RDMA" write "$BAR_A"
}

# A module that gives memory out is held by nobody who could not be revoked.
test_client_removed_with_mrs() {
	local pid
	start hold hold -n 5 "$BAR_A"
	wait_line /tmp/hold '^holding 5'
	# The open device file holds the module; the function need not stay bound.
	must_fail rmmod io_peer_mem
	unbind_in_time "$BDF_A"
	kill "$pid"
	wait "$pid" || true
	timeout 60 rmmod io_peer_mem
	load_io
	find_bars
}
