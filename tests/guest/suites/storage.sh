# SPDX-License-Identifier: GPL-2.0
#
# Direct I/O between disks and BARs by unmodified programs (Documentation/io_peer_mem.rst), in the
# topology storage: two BARs and two SSDs below one PCIe switch, an SSD outside.

. ./storage.sh

NO_ROUTE='cannot be used for peer-to-peer DMA as the client and provider'

setup() {
	load_stack
	load_bars
	load_disks
	eventually disk_of far
	eventually disk_of slow
	modprobe -a ext4 xfs
	mkdir -p /tmp/fs
	note "nvme: $(modinfo -n nvme), $(fio --version)"
}
# Each test runs in a shell of its own, and a bind can have renamed the disk.
before_test() { DISK=$(disk_of disk); }
nothing_left() { eventually all_free "$BDF_A"; }

# --- what works ---

test_pread_and_pwrite() {
	transfers "$DISK" "$BAR_A"
	nothing_left
}

test_libaio_and_io_uring() {
	verified "$DISK" "$BAR_A" libaio crc32c
	verified "$DISK" "$BAR_A" io_uring sha256 --numjobs=2 --offset_increment=16M
	nothing_left
}

# file_system NAME OPTION: a new one on the disk; its files as the disk itself.
file_system() {
	local file=/tmp/fs/file
	"mkfs.$1" "$2" -q "$DISK"
	mount "$DISK" /tmp/fs
	fallocate -l 8M $file
	transfers $file "$BAR_A"
	# Blocks that are not allocated yet.
	verified /tmp/fs/new "$BAR_A" io_uring crc32c
	umount /tmp/fs
	nothing_left
}
test_file_systems() {
	file_system ext4 -F
	file_system xfs -f
}

# The sample, with soft RoCE: through the first BAR to the second one; the host's files behind the disk and
# both BARs have the same bytes then.
test_disk_to_bar_to_rdma() {
	local through to
	dd if=/dev/urandom of="$DISK" bs=1M count=1 oflag=direct status=none
	/mnt/programs/peer_verbs disk -f "$DISK" -d "$DEV" -x "$(gid_index)" "$BAR_A" "$BAR_B" | tee /tmp/disk
	{ read -r _ through _ && read -r _ to _; } </tmp/disk
	cmp --bytes=$((1 << 20)) --ignore-initial="0:$((${through#offset=}))" "$OUT/bar-disk" "$OUT/bar-a"
	cmp --bytes=$((1 << 20)) --ignore-initial="0:$((${to#offset=}))" "$OUT/bar-disk" "$OUT/bar-b"
	eventually balanced
	nothing_left
	refuses 'does not take peer-to-peer memory' eval "modprobe brd; /mnt/programs/peer_verbs disk -f /dev/ram0 $BAR_A host"
	rmmod brd
	refuses 'no route to the BAR' /mnt/programs/peer_verbs disk -f "$(disk_of far)" "$BAR_A" host
}

test_private_mapping() { expect "map EINVAL" io "$DISK" "$BAR_A" map=private; }

# The SSD only reads the memory then.
test_read_only_mapping() {
	expect "write 65536
read EFAULT" io "$DISK" "$BAR_A" map=readonly
}

# The SSD outside of the switch, with a CPU whose host bridge is not known to route.
test_no_route() {
	local far
	far=$(disk_of far)
	both_fail EINVAL "$far" "$BAR_A"
	# The kernel says it once for each pair, to the first test that has it.
	grep -qF "nvme $(ssd_of far): $NO_ROUTE ($BDF_A)" < <(log_all)
	expect "write 65536" io "$far" host do=write
}

# --- the BAR or the SSD goes while I/O goes on ---

# begin_io read|write: three processes on the first BAR. The CPU accesses the memory of fio only
# before a write. A read of a disk that is gone returns 0, which fio repeats for ever.
begin_io() {
	local engine
	# Without the function, so that $! is the process itself.
	python3 storage_io.py "$DISK" "$BAR_A" do=forever >/tmp/forever 2>&1 &
	users=($!)
	for engine in libaio io_uring; do
		run_fio "$DISK" "$BAR_A" $engine "--rw=rand$1" --time_based --runtime=300 >/tmp/fio-$engine 2>&1 &
		users+=($!)
	done
	wait_line /tmp/forever '^running'
	# The processes of fio map the memory before they read.
	eventually mappings 3
}
mappings() { [ "$(grep -l "$BAR_A" /proc/[0-9]*/maps 2>/dev/null | wc -l)" -ge "$1" ]; }

# io_ends ERRNO MESSAGE: each process gets this error, and ends.
io_ends() {
	local i
	ended "${users[0]}"
	cat /tmp/forever
	grep -xE "(read|write) ($1)" /tmp/forever
	for i in 1 2; do must_fail ended "${users[$i]}"; done
	for i in libaio io_uring; do
		grep 'err=' /tmp/fio-$i
		grep -E "error=($2)" /tmp/fio-$i
	done
}
bar_is_back() {
	find_bars
	transfers "$DISK" "$BAR_A"
	nothing_left
}

test_unbind_of_the_bar() {
	local users
	begin_io read
	unbind_in_time "$BDF_A"
	io_ends EFAULT 'Bad address'
	bind "$BDF_A"
	bar_is_back
}

test_unplug_of_the_ssd() {
	local users
	begin_io write
	ask_host unplug ssd-disk
	io_ends '0|EIO|ENOSPC|ENODEV|ENXIO' 'Input/output error|No space left on device|No such device.*'
	ask_host plug ssd-disk
	eventually disk_of disk
	DISK=$(disk_of disk)
	bar_is_back
}

# The slow SSD takes a while for each request: the unbind waits for the one in flight, which succeeds.
test_unbind_waits_for_a_request() {
	local slow pid
	slow=$(disk_of slow)
	python3 storage_io.py "$slow" "$BAR_A" do=read >/tmp/slow 2>&1 &
	pid=$!
	soon in_flight "$slow"
	unbind_in_time "$BDF_A"
	ended $pid
	cat /tmp/slow
	grep -x 'read 65536' /tmp/slow
	must_fail in_flight "$slow"
	bind "$BDF_A"
	bar_is_back
}
in_flight() {
	local reads writes
	read -r reads writes <"/sys/block/${1##*/}/inflight" && [ $((reads + writes)) -gt 0 ]
}

# Killed processes leave nothing, also with requests in flight.
test_killed_with_requests() {
	local users i slow
	begin_io read
	slow=$(disk_of slow)
	python3 storage_io.py "$slow" "$BAR_A" do=read >/tmp/slow 2>&1 &
	users+=($!)
	soon in_flight "$slow"
	# The jobs of fio are children of what was started.
	kill -9 "${users[0]}" "${users[3]}"
	pkill -9 -x fio
	for i in "${users[@]}"; do eventually gone "$i"; done
	nothing_left
}
