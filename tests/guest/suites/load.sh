# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Loading and unloading, beside the stock stack, in every order.

setup() { load_stack; }

# What a kernel with more checks may find fault with; it has no mlx5_ib.
# shellcheck disable=SC2034 # init's
[ "$KIND" != debug ] ||
	TESTS="test_core test_io test_sysfs_files test_unload test_io_needs_core
		test_device_after_core test_rxe_module_goes_and_comes test_load_many_times"

test_stack_is_stock() {
	local m
	for m in ib_core ib_uverbs rdma_rxe; do
		loaded $m
		# Where the module file is from, and that nothing replaced it.
		modinfo -F filename $m | grep "^/lib/modules/$(uname -r)/kernel/drivers/infiniband/"
	done
	note "kernel $(uname -r), modules of the distribution: ib_core ib_uverbs rdma_rxe"
}

test_mlx5_ib_is_loaded() {
	loaded mlx5_ib
	note "mlx5_ib is loaded beside us"
}

test_core() {
	load_core
	[ -d "$PEERS" ]
	note "ib_peer_mem loaded: $(modinfo -F description "$MODS/ib_peer_mem.ko")"
}

test_io() {
	load_io
	find_bars
	expect io_peer_mem ls "$PEERS"
	note "io_peer_mem loaded: $BAR_A, $BAR_B"
}

test_sysfs_files() {
	local f
	[ -n "$(counter version)" ]
	for f in num_alloc_mrs num_dealloc_mrs num_reg_pages num_dereg_pages \
		num_reg_bytes num_dereg_bytes num_free_callbacks; do
		expect 0 counter $f
		must_fail eval "echo 1 >$PEERS/io_peer_mem/$f"
	done
}

test_symbols_are_exported() {
	grep -q ' ib_register_peer_memory_client\b' /proc/kallsyms
	grep -q ' ib_unregister_peer_memory_client\b' /proc/kallsyms
}

test_core_is_held_by_its_client() {
	must_fail rmmod ib_peer_mem
	loaded ib_peer_mem
}

test_unload() {
	unload_modules
	[ ! -e "$PEERS" ]
	[ ! -e /dev/io_peer_mem ]
}

test_io_needs_core() {
	must_fail insmod "$MODS/io_peer_mem.ko" "ids=$IDS"
}

test_bad_ids() {
	local ids
	load_core
	for ids in zzz 1af4 1af4:zzzz "1af4:1110,," 1af4:111000; do
		must_fail insmod "$MODS/io_peer_mem.ko" "ids=$ids"
	done
	must_fail loaded io_peer_mem
}

# The rxe device comes after the core, and goes while it is there.
test_device_after_core() {
	rdma link delete rxe0
	load_modules
	add_rxe
	"$RDMA" write -o 100 -l 50000 "$BAR_A"
	rdma link delete rxe0
	balanced
	add_rxe
	"$RDMA" write -o 100 -l 50000 "$BAR_A"
}

test_rxe_module_goes_and_comes() {
	rdma link delete rxe0
	rmmod rdma_rxe
	modprobe rdma_rxe
	add_rxe
	"$RDMA" write "$BAR_A"
}

test_mlx5_ib_goes_and_comes() {
	rmmod mlx5_ib
	modprobe mlx5_ib
	unload_modules
	rmmod mlx5_ib
	load_modules
	modprobe mlx5_ib
}

# What the modules put in the way is gone with them.
test_host_memory_after_unload() {
	unload_modules
	"$RDMA" write host
}

test_load_many_times() {
	local rounds=10
	[ "$KIND" != debug ] || rounds=3
	while ((rounds-- > 0)); do
		load_modules
		unload_modules
	done
}
