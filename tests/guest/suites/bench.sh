# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What registrations cost, in instructions, for scripts/bench, which boots a guest whose
# instructions are counted. The rows are in the file bench of the results; bench_clock.h has the
# columns. peer.bench=short leaves rows out.

. ./steps.sh

# Of the guest's clock, which passes by what does not take the host's time.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=1800
MODULES=$MODS/external/tests/bench
BENCH=$(parameter bench full)
KIB=1024 MIB=1048576
HEAP=/dev/dma_heap/system
SIZES=($((4 * KIB)) $((64 * KIB)) $((2 * MIB)) $((32 * MIB)))
CLIENTS=(1 8 64)
# So often the size, whose cost is measured by 36 MRs.
WARM_UP=64
# The end of many MRs, so often.
MANY_AGAIN=3
[ "$DEV" = rxe0 ] || MANY_AGAIN=2
if [ "$BENCH" = short ]; then
	SIZES=($((4 * KIB)) $((2 * MIB)))
	CLIENTS=(1 64)
	MANY_AGAIN=1
fi

# rows LABEL TARGET SIZE...
rows() {
	local arguments=() again=1
	# The adapter works while the thread that registers sleeps: only CPU time counts, and that
	# depends on how long it sleeps.
	[ "$DEV" = rxe0 ] || arguments+=(-c) again=3
	: >/tmp/rows
	for ((; again > 0; again--)); do
		/mnt/programs/bench_mr "${arguments[@]}" "$DEV" "$@" >>/tmp/rows
	done
	cat /tmp/rows >>"$OUT/bench"
}

# Before the modules are loaded. The first MRs of a device cost less: the arrays in which ib_core and
# the driver keep MRs by numbers, which grow with each MR, are small.
setup() {
	local i sizes=()
	# Whether large MR pages fit depends on the address of a mapping.
	sysctl -qw kernel.randomize_va_space=0
	load_stack
	: >"$OUT/bench"
	# The adapter is a process of its own. If it answers before the thread that waits has left its
	# CPU to the idle task, the thread gets it back for 2,048 instructions less.
	[ "$DEV" = rxe0 ] || ask_host connectx delay-interrupts 100
	for ((i = 0; i < WARM_UP; i++)); do sizes+=($((4 * KIB))); done
	rows warm-up host "${sizes[@]}"
	: >"$OUT/bench"
}

test_stock() { rows stock host "${SIZES[@]}"; }

test_no_client() {
	load_core
	rows 0-clients host "${SIZES[@]}"
}

test_clients() {
	local n
	for n in "${CLIENTS[@]}"; do
		insmod "$MODULES/bench_clients.ko" clients="$n"
		rows "$n-clients" host "${SIZES[@]}"
		rmmod bench_clients
	done
}

test_bar() {
	local size=("${SIZES[@]}")
	load_bars
	# The largest: another MR takes a page of the BAR.
	[ "$BENCH" = short ] || size+=($((64 * MIB - 64 * KIB)))
	rows io_peer_mem host "${SIZES[@]}"
	rows io_peer_mem "bar:$BAR_A" "${size[@]}"
	rows io_peer_mem "first:$BAR_A" $((4 * KIB))
	if [ "$DEV" != rxe0 ]; then
		rows io_peer_mem "dmabuf:$BAR_A" "${size[@]}"
		# Debian's arm64 kernels have no heaps.
		if [ -e "$HEAP" ]; then
			rows io_peer_mem "heap:$HEAP" "${SIZES[@]}"
			rows io_peer_mem "heap-dmabuf:$HEAP" "${SIZES[@]}"
		fi
	elif [ "$BENCH" != short ]; then
		rows io_peer_mem "export:$BAR_A" "${size[@]}"
	fi
	[ "$BENCH" != short ] || return 0
	# The memory is cleared, and then it is not.
	rows io_peer_mem "map:$BAR_A" "${size[@]}"
	echo never >/sys/module/io_peer_mem/parameters/zero
	unbind_and_bind "$BDF_A"
	rows zero=never "map:$BAR_A" "${size[@]}"
	unload_io
	load_bars
}

test_unloaded() {
	unload_modules
	rows stock-again host "${SIZES[@]}"
}

test_vendor() {
	local n
	[ "$BENCH" != short ] || skip "no budget compares with it"
	for n in "${CLIENTS[@]}"; do
		insmod "$MODULES/bench_vendor.ko" clients="$n"
		rows "vendor-$n-clients" host "${SIZES[@]}"
		rmmod bench_vendor
	done
}

# data OPERATION MEMORY SIZE: what one message costs.
data() {
	local messages=$((16 + 16 * MIB / $3)) what=host cost
	# shellcheck disable=SC2034 # of steps.sh
	local PERFTEST_OPTIONS=(-Q 1) PERFTEST_BY=(/mnt/programs/bench_run /tmp/cost)
	[ "$2" = host ] || what=bar
	if [ "$DEV" = rxe0 ]; then
		# By the kernel's workers. The requester polls while they have no work.
		PERFTEST_OPTIONS+=(-t 16)
		PERFTEST_BY+=(workers chrt --idle 0)
		perftest "$1" "$2" "$3" "$messages"
		cost=$(($(cat /tmp/cost) / messages))
	else
		# Of all tasks; they sleep. As the difference of two runs.
		PERFTEST_OPTIONS+=(-t 1 --events)
		PERFTEST_BY+=(tasks)
		perftest "$1" "$2" "$3" 16
		cost=$(cat /tmp/cost)
		perftest "$1" "$2" "$3" 2064
		cost=$((($(cat /tmp/cost) - cost) / 2048))
	fi
	echo "perftest data-$what $3 $1 $cost 0 0" >>"$OUT/bench"
}

test_data() {
	local size operation operations=(write read) again
	[ "$BENCH" != short ] || skip "no budget"
	load_bars
	# perftest has no events for writes, and its sends do not sleep all the time.
	[ "$DEV" = rxe0 ] || operations=(read)
	for size in $((64 * KIB)) $MIB; do
		for operation in "${operations[@]}"; do
			for again in 1 2 3; do
				data "$operation" host "$size"
				data "$operation" "$BAR_A" "$size"
			done
		done
	done
}

# many TARGET SIZE END COUNT...: see bench_many. The rows of many MRs are the last ones, as the
# driver's array of MRs grows.
many() {
	local target=$1 size=$2 end=$3 count again
	shift 3
	for ((again = 0; again < MANY_AGAIN; again++)); do
		for count; do
			/mnt/programs/bench_many "$DEV" "$target" "$size" "$end" "$count" >>"$OUT/bench"
			# Back for the next one.
			[[ $end != remove:* ]] || add_device
		done
	done
}

# memory TARGET SIZE COUNT
memory() {
	(
		echo $BASHPID >/tmp/cgroup/bench/cgroup.procs
		exec /mnt/programs/bench_many -m /tmp/cgroup/bench "$DEV" "$1" "$2" exit "$3"
	) | grep " memory" >>"$OUT/bench"
}

test_memory() {
	local large=$((64 * MIB - 64 * KIB))
	make_cgroup bench
	load_bars
	if [ "$BENCH" = short ]; then
		memory "bar:$BAR_A" 4096 1000
	elif [ "$DEV" = rxe0 ]; then
		# 10,000 would not fit into the guest's memory.
		memory "bar:$BAR_A" $large 500
		memory host $large 500
		memory "bar:$BAR_A" 4096 10000
		memory host 4096 10000
	else
		memory "bar:$BAR_A" $large 2000
		memory "dmabuf:$BAR_A" $large 2000
		memory "bar:$BAR_A" 4096 10000
		memory "dmabuf:$BAR_A" 4096 10000
	fi
	rmdir /tmp/cgroup/bench
	umount /tmp/cgroup
}

test_client_ends_them() {
	local count=(0 1 100 10000)
	load_bars
	insmod "$MODULES/bench_memory.ko"
	# There each one waits some tenths of a second.
	[ "$DEV" != rxe0 ] || count=(0 1 100)
	[ "$BENCH" != short ] || count=(0 1 20)
	many memory 4096 invalidate "${count[@]}"
	[ "$BENCH" = short ] || many memory 4096 unregister 0 1 100 10000
	rmmod bench_memory
}

test_exit() {
	[ "$BENCH" != short ] || skip "no budget"
	many host 4096 exit 0 100 10000
	many "bar:$BAR_A" 4096 exit 0 100 10000
}

# The first removal frees what the driver has kept of all MRs before.
test_removal() {
	local target command="rdma link delete rxe0"
	[ "$BENCH" != short ] || skip "no budget"
	insmod "$MODULES/bench_memory.ko"
	remove_device
	add_device
	[ "$DEV" = rxe0 ] || command="echo $(mlx5_bdf) >/sys/bus/pci/drivers/mlx5_core/unbind"
	# Its own cost differs too much for fewer.
	for target in host memory; do many $target 4096 "remove:$command" 0 1000 10000; done
	rmmod bench_memory
}
