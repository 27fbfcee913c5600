# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # init's
#
# The client in Rust that others copy from.

CLIENT=peer_client_rust
MODULE=$MODS/$CLIENT.ko
. ./sample.sh

TESTS="test_load test_write_and_read_back test_atomics test_what_is_not_its_memory
	test_nothing_to_take_away test_taken_away_while_held test_taken_away_under_a_writer
	test_taken_away_while_registering test_again test_killed test_mapping_holds_the_module
	test_unload_with_live_mrs test_load_again"

test_killed() {
	local pid
	start hold hold -n 5 -o 3 -l 300000 "$SAMPLE"
	wait_line /tmp/hold '^holding 5'
	kill -9 "$pid"
	wait "$pid" || true
	eventually sample_balanced
	eventually nothing_registered
	start forever forever "$SAMPLE"
	wait_line /tmp/forever '^running'
	kill -9 "$pid"
	wait "$pid" || true
	eventually sample_balanced
	eventually nothing_registered
}

# MRs that live in a process which has the memory no longer mapped: the module goes,
# and they answer with an error.
test_unload_with_live_mrs() {
	local pid
	start forever forever -u -t 2 "$SAMPLE"
	wait_line /tmp/forever '^running'
	expect 0 references
	expect "1 256" sample_in_use
	timeout 60 rmmod $CLIENT
	[ ! -e "$PEERS/$CLIENT" ]
	[ ! -e "$SAMPLE" ]
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer after rmmod: $(grep 'remote access' /tmp/forever)"
	eventually nothing_registered
	# Its memory is gone, its adapter goes on.
	"$RDMA" write host
}

test_load_again() {
	insmod "$MODULE"
	eventually test -c "$SAMPLE"
	# The counters are this registration's.
	expect 0 sample num_alloc_mrs
	"$RDMA" write "$SAMPLE"
	sample_balanced
	rmmod $CLIENT
}
