# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How much more two threads register than one, by the clock, for scripts/bench, which boots a guest
# whose two CPUs run at the same time. The rows are in the file bench of the results.

# A device beside rxe0.
setup() {
	load_stack
	ip link add d1 type dummy
	ip link set d1 address 02:00:00:00:00:02 mtu 4200 up
	rdma link add rxe1 type rxe netdev d1
	: >"$OUT/bench"
}

# threads STATE TARGET
threads() { /mnt/programs/bench_threads "$1" "$2" rxe0 rxe1 >>"$OUT/bench"; }

test_stock() { threads stock host; }

test_loaded() {
	load_bars
	threads io_peer_mem host
	threads io_peer_mem "bar:$BAR_A"
}
