# SPDX-License-Identifier: GPL-2.0
#
# When clients are asked: host memory goes to the driver alone, unless order=clients_first.

REPLICA=$MODS/external/tests/symbols/replica.ko
. ./steps.sh

setup() { load_stack; }

calls() { value_of /sys/module/replica/parameters/calls; }

# with_order PARAMETER...: the core with these parameters, and the client that counts.
with_order() {
	unload_modules
	load_core "$@"
	insmod "$REPLICA"
}

test_host_first() {
	with_order
	"$RDMA" write -o 77 -l 300001 host
	"$RDMA" atomic -o 77 -l 4096 host
	expect "registration: ok" "$RDMA" reg -l 4096 host
	expect 0 calls
	# Memory that cannot be pinned.
	expect "registration: EFAULT" "$RDMA" reg -M -@ 0x7e0000000000 -l 4096 host
	expect 1 calls
	rmmod replica
}

test_clients_first() {
	with_order order=clients_first
	expect "registration: ok" "$RDMA" reg -l 4096 host
	expect 1 calls
	expect "registration: EFAULT" "$RDMA" reg -M -@ 0x7e0000000000 -l 4096 host
	expect 2 calls
	rmmod replica
}

# The page tables say that the memory of the second MR is ordinary: the core does not try to pin it
# before rdma_rxe does. The first MR is on memory that nothing is known about.
# not on debug
test_ordinary_memory_is_pinned_once() {
	local calls
	with_order order=clients_first
	trace_calls pin_user_pages_fast
	"$RDMA" atomic -l 4096 host
	calls=$(traced_calls)
	printf '%s\n' "$calls"
	expect 2 grep -cE '<-(__)?ib_umem' <<<"$calls"
	# Rust's own names.
	[ "$(grep -c '<-_R' <<<"$calls")" -le 1 ]
	rmmod replica
}

# io_peer_mem's memory is served in both orders.
test_peer_memory_clients_first() {
	load_bars
	"$RDMA" write -o 4096 -l 65536 "$BAR_A"
	eventually balanced
	unload_modules
}

test_unknown_order() {
	insmod_refuses "order=clients: not host_first" "$MODS/ib_peer_mem.ko" order=clients
}
