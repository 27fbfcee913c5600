# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Direct I/O between disks and BARs by unmodified programs (Documentation/io_peer_mem.rst), in the
# topology storage: two BARs and two SSDs below one PCIe switch, an SSD outside. The first SSD has a
# controller memory buffer.

. ./storage.sh

NO_ROUTE='cannot be used for peer-to-peer DMA as the client and provider'

setup() {
	load_stack
	load_modules
	find_bars
	load_disks
	eventually disk_of second
	eventually disk_of far
	eventually disk_of slow
	modprobe -a ext4 xfs dm-mod dm-crypt
	mkdir -p /tmp/fs
	find_disk
	cat "${CMB%/*}/available" >/tmp/cmb-available
	note "nvme: $(modinfo -n nvme), $(fio --version)"
}
find_disk() {
	DISK=$(disk_of disk)
	CMB=/sys/bus/pci/devices/$(ssd_of disk)/p2pmem/allocate
}
# Each test runs in a shell of its own, and a bind can have renamed the disk.
before_test() { find_disk; }
nothing_left() {
	eventually all_free "$BDF_A"
	eventually cmp "${CMB%/*}/available" /tmp/cmb-available
}

# --- what works ---

test_pread_and_pwrite() {
	transfers "$DISK" "$BAR_A"
	nothing_left
}

# The alignment of the memory is that of the disk's DMA, not that of its blocks.
test_memory_at_four_bytes() {
	transfers "$DISK" "$BAR_A" at=4
	both_fail EINVAL "$DISK" "$BAR_A" at=2
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
	verified /tmp/fs/new "$CMB" libaio crc32c
	umount /tmp/fs
	nothing_left
}
test_file_systems() {
	file_system ext4 -F
	file_system xfs -f
}

# Of the same SSD, and of another one.
test_controller_memory_buffer() {
	local second
	second=$(disk_of second)
	transfers "$DISK" "$CMB"
	transfers "$second" "$CMB"
	verified "$second" "$CMB" io_uring crc32c
	nothing_left
}

# The sample, with soft RoCE.
test_disk_to_bar_to_rdma() {
	disk_to_memory
	nothing_left
	refuses 'does not take peer-to-peer memory' eval "modprobe brd; /mnt/programs/disk_rdma /dev/ram0 $BAR_A host"
	rmmod brd
	refuses 'no route to the BAR' /mnt/programs/disk_rdma "$(disk_of far)" "$BAR_A" host
}

# The SSD only reads the memory then.
test_read_only_mapping() {
	expect "write 65536
read EFAULT" io "$DISK" "$BAR_A" map=readonly
}

# --- memory that cannot be used, and wrong requests ---

test_private_mapping() {
	expect "map EINVAL" io "$DISK" "$BAR_A" map=private
	expect "map EINVAL" io "$DISK" "$CMB" map=private
}

# A request is served as far as the mapping reaches.
test_ends_past_the_mapping() {
	both_fail 4096 "$DISK" "$BAR_A" at=$(((1 << 20) - 4096)) length=8192
	both_fail EFAULT "$DISK" "$BAR_A" at=$((1 << 20))
}

test_not_aligned() {
	both_fail EINVAL "$DISK" "$BAR_A" at=1
	both_fail EINVAL "$DISK" "$BAR_A" offset=100
	both_fail EINVAL "$DISK" "$BAR_A" length=1000
}

# A mapping of resource2 in sysfs has no struct pages.
test_memory_without_struct_pages() {
	unbind "$BDF_B"
	both_fail EFAULT "$DISK" "/sys/bus/pci/devices/$BDF_B/resource2"
	rebind "$BDF_B"
}

# They would be pinned for a long time.
test_io_uring_fixed_buffers() {
	must_fail run_fio "$DISK" "$BAR_A" io_uring --rw=read --fixedbufs=1 >/tmp/fio 2>&1
	cat /tmp/fio
	grep -F 'func=io_queue_init, error=Remote I/O error' /tmp/fio
	verified "$DISK" "$BAR_A" io_uring crc32c
}

test_vmsplice() {
	expect "vmsplice EREMOTEIO" io "$DISK" "$BAR_A" do=vmsplice
	expect "vmsplice 65536" io "$DISK" host do=vmsplice
}

# --- disks that cannot do it: host memory works, and the BAR gets an errno ---

# refuses_peer_memory DISK
refuses_peer_memory() {
	transfers "$1" host
	both_fail EREMOTEIO "$1" "$BAR_A"
	both_fail EREMOTEIO "$1" "$CMB"
}

# mapped_by TARGET...: through a device-mapper target.
mapped_by() {
	dmsetup create peer --noudevsync --table "0 65536 $*"
	refuses_peer_memory "/dev/$(basename "$(readlink -f /sys/dev/block/"$(dmsetup info -c --noheadings -o major,minor peer)")")"
	dmsetup remove --noudevsync peer
}
test_device_mapper() {
	mapped_by linear "$DISK" 0
	mapped_by crypt aes-xts-plain64 "$(printf '%064d' 7)" 0 "$DISK" 0
}

test_other_disks() {
	local disk driver
	while read -r disk driver; do
		# shellcheck disable=SC2086 # words are meant
		modprobe $driver
		eventually test -b "$disk"
		refuses_peer_memory "$disk"
		rmmod "${driver%% *}"
	done <<-END
		/dev/ram0 brd rd_nr=1 rd_size=8192
		/dev/nullb0 null_blk nr_devices=1 gb=1 memory_backed=1
		/dev/vda virtio_blk
	END
	modprobe loop
	truncate -s 8M /tmp/loop-file
	disk=$(losetup --find --show /tmp/loop-file)
	refuses_peer_memory "$disk"
	losetup --detach "$disk"
	rmmod loop
}

test_nvme_over_tcp() {
	local REMOTE
	modprobe -a nvmet nvmet-tcp nvme-tcp
	make_target tcp 127.0.0.1 second
	echo 1 >"$NAMESPACE/enable"
	connect_target tcp 127.0.0.1
	refuses_peer_memory "$REMOTE"
	nvme disconnect -n peer
	remove_target
	rmmod nvme-tcp nvmet-tcp nvmet
}

# The SSD outside of the switch, with a CPU whose host bridge is not known to route.
test_no_route() {
	local far
	far=$(disk_of far)
	both_fail EINVAL "$far" "$BAR_A"
	both_fail EINVAL "$far" "$CMB"
	# The kernel says it once for each pair, to the first test that has it.
	grep -qF "nvme $(ssd_of far): $NO_ROUTE ($BDF_A)" < <(dmesg -S)
	expect "write 65536" io "$far" host do=write
}

# tmpfs accepts O_DIRECT, and the CPU copies.
test_tmpfs_copies() {
	truncate -s 1M /dev/shm/file
	transfers /dev/shm/file "$BAR_A"
	rm /dev/shm/file
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
ssd_is_back() {
	eventually disk_of disk
	find_disk
	transfers "$DISK" "$BAR_A"
	transfers "$DISK" "$CMB"
	nothing_left
}
SSD_GONE='0|EIO|ENOSPC|ENODEV|ENXIO'
SSD_GONE_TEXT='Input/output error|No space left on device|No such device.*'

test_unbind_of_the_bar() {
	local users took
	begin_io read
	took_ms unbind_in_time "$BDF_A"
	io_ends EFAULT 'Bad address'
	note "unbind of the BAR under three processes: $took ms, then EFAULT"
	bind "$BDF_A"
	bar_is_back
}

test_unplug_of_the_ssd() {
	local users took
	begin_io write
	took_ms ask_host unplug ssd-disk
	io_ends "$SSD_GONE" "$SSD_GONE_TEXT"
	note "hot unplug of the SSD: $took ms, then $(tail -n 1 /tmp/forever)"
	ask_host plug ssd-disk
	ssd_is_back
}

# The slow SSD takes a while for each request: the unbind waits for the one in flight, which succeeds.
test_unbind_waits_for_a_request() {
	local slow pid took
	slow=$(disk_of slow)
	python3 storage_io.py "$slow" "$BAR_A" do=read >/tmp/slow 2>&1 &
	pid=$!
	soon in_flight "$slow"
	took_ms unbind_in_time "$BDF_A"
	ended $pid
	cat /tmp/slow
	grep -x 'read 65536' /tmp/slow
	must_fail in_flight "$slow"
	note "unbind of the BAR with a request in flight: $took ms"
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

