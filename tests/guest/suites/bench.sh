# SPDX-License-Identifier: GPL-2.0
#
# What registrations cost, in instructions, for scripts/bench, which boots a guest whose
# instructions are counted. The rows are in the file bench of the results; bench.h has the
# columns.

. ./steps.sh

# Of the guest's clock, which passes by what does not take the host's time.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=1800
MODULES=$MODS/external/tests/bench
MEMORY=/dev/bench_memory
HEAP=/dev/dma_heap/system
SIZES=(4096 $((2 << 20)))
# Of a table, with entries of 64 KiB.
TABLES=($((1 << 30)) $((16 << 30)) $((64 << 30)))
# So often the size, whose cost is measured by 36 MRs.
WARM_UP=64

# rows LABEL TARGET SIZE...
rows() {
	local arguments=() again=1
	# The adapter works while the thread that registers sleeps: only CPU time counts, and that
	# depends on how long it sleeps.
	[ "$DEV" = rxe0 ] || arguments+=(-c) again=3
	for ((; again > 0; again--)); do
		/mnt/programs/bench_mr "${arguments[@]}" "$DEV" "$@" >>"$OUT/bench"
	done
}

# Before the modules are loaded. The first MRs of a device cost less: the arrays in which ib_core and
# the driver keep MRs by numbers, which grow with each MR, are small.
setup() {
	local i sizes=()
	# Whether large MR pages fit depends on the address of a mapping.
	sysctl -qw kernel.randomize_va_space=0
	load_stack
	# The adapter is a process of its own. If it answers before the thread that waits has left its
	# CPU to the idle task, the thread gets it back for 2,048 instructions less.
	[ "$DEV" = rxe0 ] || ask_host connectx delay-interrupts 100
	for ((i = 0; i < WARM_UP; i++)); do sizes+=(4096); done
	rows warm-up host "${sizes[@]}"
	: >"$OUT/bench"
}

test_stock() { rows stock host "${SIZES[@]}"; }

test_clients() {
	local n
	load_core
	rows 0-clients host "${SIZES[@]}"
	for n in 1 64; do
		insmod "$MODS/external/tests/symbols/replica.ko" clients=$n
		rows $n-clients host "${SIZES[@]}"
		rmmod replica
	done
}

test_bar() {
	load_bars
	rows io_peer_mem host 4096
	rows io_peer_mem "bar:$BAR_A" "${SIZES[@]}"
	rows io_peer_mem "first:$BAR_A" 4096
	[ "$DEV" != rxe0 ] || return 0
	rows io_peer_mem "dmabuf:$BAR_A" "${SIZES[@]}"
	echo 1 >"/sys/bus/pci/devices/$BDF_SMALL/enable"
	echo any >/sys/module/io_peer_mem/parameters/mmio
	rows io_peer_mem "mmio:/sys/bus/pci/devices/$BDF_SMALL/resource2" 4096
	echo 0 >/sys/module/io_peer_mem/parameters/mmio
	echo 0 >"/sys/bus/pci/devices/$BDF_SMALL/enable"
	# Debian's arm64 kernels have no heaps.
	[ -e $HEAP ] || return 0
	rows io_peer_mem "heap:$HEAP" "${SIZES[@]}"
	rows io_peer_mem "heap-dmabuf:$HEAP" "${SIZES[@]}"
}

# many TARGET SIZE END COUNT...: see bench_many. The rows of many MRs are the last ones, as the
# driver's array of MRs grows.
many() {
	local count
	for count in "${@:4}"; do
		/mnt/programs/bench_many "$DEV" "$1" "$2" "$3" "$count" >>"$OUT/bench"
	done
}

# kernel_memory: the bytes that are not free, without those of processes and files; and the kernel memory of the
# memory cgroup. Memory that waits for RCU is freed within 5 s. Pages stay with the slab allocator when their
# objects are freed, and each CPU keeps free pages.
kernel_memory() {
	sleep 6
	echo 1 >/proc/sys/vm/stat_refresh
	awk -v page="$PAGE" '
		/pages free/ { other += $3 }
		$1 == "count:" { other += $2 }
		/^nr_(anon_pages|file_pages|slab_reclaimable|slab_unreclaimable) / { other += $2 }
		FILENAME ~ /slabinfo/ { objects += $2 * $4 }
		$1 == "kernel" { charged = $2 }
		END { printf "%.0f %.0f\n", (2 ^ 32 - other) * page + objects, charged }' \
		/proc/zoneinfo /proc/vmstat /proc/slabinfo /tmp/cgroup/bench/memory.stat
}

# memory TARGET SIZE COUNT: rows of what so many MRs take.
memory() {
	local before after go pid i bytes kinds=(memory memory-charged)
	rm -f /tmp/go
	mkfifo /tmp/go
	exec {go}<>/tmp/go
	: >/tmp/many
	(
		echo $BASHPID >/tmp/cgroup/bench/cgroup.procs
		exec /mnt/programs/bench_many "$DEV" "$1" "$2" wait "$3"
	) <&"$go" >/tmp/many {go}>&- &
	pid=$!
	wait_line /tmp/many '^begin'
	read -ra before < <(kernel_memory)
	echo >&"$go"
	wait_line /tmp/many '^registered'
	read -ra after < <(kernel_memory)
	for i in 0 1; do
		bytes=$((after[i] - before[i]))
		echo "$3 many-${1%%:*} $2 ${kinds[i]} $bytes $bytes $bytes"
	done >>"$OUT/bench"
	echo >&"$go"
	exec {go}>&-
	wait $pid
}

# A table of 1,048,576 entries that do not join, without memory behind it.
test_tables() {
	[ "$DEV" != rxe0 ] || skip "the memory has no struct pages"
	load_core
	insmod "$MODULES/bench_memory.ko" entries=$((1 << 20))
	rows table "table:$MEMORY" "${TABLES[@]}"
	rows table "table-dmabuf:$MEMORY" "${TABLES[@]}"
	make_cgroup bench
	memory table $((1 << 30)) 20
	memory table-dmabuf $((1 << 30)) 20
	rmdir /tmp/cgroup/bench
	umount /tmp/cgroup
	rmmod bench_memory
}

test_memory() {
	make_cgroup bench
	load_bars
	memory "bar:$BAR_A" 4096 1000
	[ "$DEV" = rxe0 ] || memory "dmabuf:$BAR_A" 4096 1000
	rmdir /tmp/cgroup/bench
	umount /tmp/cgroup
}

test_client_ends_them() {
	local count=(0 1 1000)
	load_core
	insmod "$MODULES/bench_memory.ko"
	# There each one waits some tenths of a second.
	[ "$DEV" != rxe0 ] || count=(0 1 20)
	many memory 4096 invalidate "${count[@]}"
	[ "$DEV" = rxe0 ] || many memory 4096 unregister "${count[@]}"
	rmmod bench_memory
}
