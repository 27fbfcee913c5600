# SPDX-License-Identifier: GPL-2.0
#
# Client tables of 1,048,576 entries that do not join, each an MR of 64 GiB without memory behind it, on
# the stock mlx5 driver (TOPOLOGY=connectx, with CONNECTX_VERBOSE=0: the log of the adapter would have each
# entry). Behind a strict IOMMU (TOPOLOGY=connectx_iommu) each entry is
# a mapping that QEMU tells the adapter, and there are less.

. ./steps.sh

# The last test unloads the client.
# shellcheck disable=SC2034 # init's
CHAIN=yes
CLIENT=bench_memory
MEMORY=/dev/$CLIENT
MODULE=$MODS/external/tests/bench/$CLIENT.ko
ENTRIES=$((1 << 20))
[ ! -d /sys/kernel/iommu_groups/0 ] || ENTRIES=$((1 << 16))
ENTRIES=$(parameter entries $ENTRIES)
SIZE=$((ENTRIES * 65536))
GROUP=/tmp/cgroup/tables

setup() {
	load_stack
	load_client
	# What the driver and the allocators keep of one.
	hold_one
}

# load_client [CORE-PARAMETER] [PARAMETER]
load_client() {
	load_core ${1:+"$1"}
	insmod "$MODULE" "entries=$ENTRIES" ${2:+"$2"}
	eventually test -c $MEMORY
}

available() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}
# Each table takes 32 bytes for each entry.
memory_is_back() { [ "$(available)" -ge $((START - ENTRIES / 64 - 4096)) ]; }
holds() { expect "$1 $(($1 * SIZE / 4096)) $(($1 * SIZE))" in_use $CLIENT; }
all_gone() {
	eventually balanced $CLIENT
	eventually memory_is_back
}

hold_one() {
	launch hold -m "$SIZE" $MEMORY
	holds 1
	kill_and_wait -9 "$pid"
	eventually balanced $CLIENT
	START=$(available)
}

# four [LIMIT]: starts four processes that register, with a PD each, in a cgroup with this limit; ${pids[@]}.
four() {
	local i
	if [ -n "${1:-}" ]; then
		make_cgroup tables
		echo "$1" >$GROUP/memory.max
	fi
	pids=()
	for i in 1 2 3 4; do
		(
			[ -z "${1:-}" ] || echo $BASHPID >$GROUP/cgroup.procs
			exec "$RDMA" hold -m "$SIZE" $MEMORY
		) >"/tmp/hold-$i" 2>&1 &
		pids+=($!)
	done
}
# decided: each of the four has its MR or an error. held: prints how many have it.
decided() {
	local i
	for i in 1 2 3 4; do
		grep -q ^holding "/tmp/hold-$i" || gone "${pids[i - 1]}" || return 1
	done
}
held() { cat /tmp/hold-[1-4] | grep -c ^holding || true; }
kill_four() {
	kill -9 "${pids[@]}" 2>/dev/null || true
	for pid in "${pids[@]}"; do ended "$pid" || true; done
	if [ -d $GROUP ]; then
		eventually rmdir $GROUP
		umount /tmp/cgroup
	fi
	all_gone
}
# bench_memory REQUEST COUNT
control() {
	python3 -c "import fcntl; fcntl.ioctl(open('$MEMORY'), $1, $2)"
}

test_four_in_a_memory_cgroup() {
	START=$(available)
	four 256M
	eventually decided
	cat /tmp/hold-[1-4]
	expect 4 held
	holds 4
	kill_four
}

# The last entry is cut, so the importer gets a table of its own. It does not fit: the registration fails, and
# no process is killed.
test_memory_cgroup_is_full() {
	[ "$ENTRIES" -ge $((1 << 20)) ] || skip "the tables are small"
	START=$(available)
	make_cgroup tables
	echo $((ENTRIES * 16 + (8 << 20))) >$GROUP/memory.max
	(
		echo $BASHPID >$GROUP/cgroup.procs
		refuses "Cannot allocate memory" "$RDMA" hold -m $((SIZE - 4096)) $MEMORY
	)
	must_fail log_has "oom-kill"
	must_fail log_has "try backend"
	eventually rmdir $GROUP
	umount /tmp/cgroup
	all_gone
}

test_invalidation_of_all() {
	START=$(available)
	four
	eventually decided
	holds 4
	control 0x6201 4
	expect 4 held
	kill_four
}

test_invalidation_while_registering() {
	START=$(available)
	four
	nap 0.3
	control 0x6202 0
	eventually decided
	control 0x6203 0
	kill_four
}

# The driver takes such memory in pages of 4 KiB, of which the emulated adapter logs each.
test_umem() {
	local SIZE=$((SIZE / 16))
	rmmod $CLIENT
	unload_modules
	load_client "backend=$DEV:umem" invalidates=0
	hold_one
	four
	eventually decided
	expect 4 held
	holds 4
	kill_four
	rmmod $CLIENT
}
