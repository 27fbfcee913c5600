# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # init's
#
# The sample client in Rust.

CLIENT=peer_client_rust
MODULE=$MODS/$CLIENT.ko
READ_ONLY=ok
. ./sample.sh

TESTS="test_load test_write_and_read_back test_atomics test_memory_that_it_rejects
	test_invalidate_without_regions test_invalidated_while_held test_invalidated_under_a_writer
	test_invalidated_while_registering test_again test_killed test_mapping_holds_the_module
	test_unload_with_live_mrs test_load_again"

test_killed() {
	local pid
	launch hold -n 5 -o 3 -l 300000 "$SAMPLE"
	kill_and_wait -9 "$pid"
	eventually sample_balanced
	eventually nothing_registered
	launch forever "$SAMPLE"
	kill_and_wait -9 "$pid"
	eventually sample_balanced
	eventually nothing_registered
}

# The process has unmapped the memory of its MRs: the module can be removed, and accesses
# to the MRs fail.
test_unload_with_live_mrs() {
	local pid
	launch forever -u -t 2 "$SAMPLE"
	expect 0 references
	expect "1 $(pages 0 1048576) 1048576" in_use $CLIENT
	timeout 60 rmmod $CLIENT
	[ ! -e "$PEERS/$CLIENT" ]
	[ ! -e "$SAMPLE" ]
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer after rmmod: $(grep 'remote access' /tmp/forever)"
	eventually nothing_registered
	# The adapter still works.
	"$RDMA" write host
}

test_load_again() {
	insmod "$MODULE"
	eventually test -c "$SAMPLE"
	# The counters start at 0 with each registration.
	expect 0 sample num_alloc_mrs
	"$RDMA" write "$SAMPLE"
	sample_balanced
	rmmod $CLIENT
}
