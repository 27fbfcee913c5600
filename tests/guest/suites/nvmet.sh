# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The stock NVMe target with published memory of a BAR, over RDMA (Documentation/io_peer_mem.rst), in the
# topology connectx_storage. The initiator is the stock one, in the same guest: the adapter connects to
# itself.

. ./storage.sh

# shellcheck disable=SC2034 # init's
CHAIN=yes

DRIVER=/sys/bus/pci/drivers/io_peer_mem
PARAMETERS=/sys/module/io_peer_mem/parameters

setup() {
	load_stack
	load_modules
	find_bars
	load_disks
	modprobe -a configfs nvmet nvmet-rdma nvme-rdma
	stock "$DEV" mlx5_ib nvmet nvmet_rdma nvme_rdma
	make_target rdma "$IP" disk
}

# staged_in P2PMEM: the namespace is enabled with this value of p2pmem, and the initiator connects. Sets
# REMOTE, its disk.
staged_in() {
	echo "$1" >"$NAMESPACE"/p2pmem
	echo 1 >"$NAMESPACE"/enable
	connect_target rdma "$IP"
}
disconnected() {
	nvme disconnect -n peer
	eventually disk_is_closed
	echo 0 >"$NAMESPACE"/enable
}
disk_is_closed() { [ ! -e "$REMOTE" ]; }

# staged COMMAND...: sets $staged, the number of requests whose data got published memory meanwhile.
staged() {
	trace_calls pci_p2pmem_alloc_sgl
	"$@"
	staged=$(traced_calls | grep -c .)
}

# passes_through BDF: data of the initiator is staged in the memory of this function.
passes_through() {
	local staged
	log_has "nvmet: using p2pmem on $1 for nsid 1"
	staged verified "$REMOTE" host io_uring crc32c
	# 128 requests of 64 KiB each way.
	[ "$staged" -ge 256 ] || fail "$staged requests were staged"
	note "$staged requests staged in memory of $1"
}

# write_marker: the initiator writes $marker, a text that is nowhere else.
write_marker() {
	marker=marker-$(cat /proc/sys/kernel/random/uuid)
	must_fail grep -qa "$marker" "$OUT/bar-a"
	python3 -c 'import sys; print((sys.argv[1] + " ") * 1400)' "$marker" >/tmp/marker
	dd if=/tmp/marker of="$REMOTE" bs=64k conv=sync oflag=direct status=none
}

# The file behind the BAR has the data afterwards.
test_staged_in_a_bar() {
	local REMOTE marker
	staged_in "$BDF_A"
	passes_through "$BDF_A"
	eventually all_free "$BDF_A"
	write_marker
	grep -qa "$marker" "$OUT/bar-a"
	grep -qa "$marker" "$OUT/bar-disk"
	disconnected
}

# The kernel chooses the nearest of all published memory.
test_nearest_published_memory() {
	local REMOTE
	staged_in 1
	log_has "nvmet: using p2pmem on [0-9a-f:.]* for nsid 1"
	transfers "$REMOTE" host
	note "p2pmem=1: $(log_since test | grep -o 'using p2pmem.*')"
	disconnected
}

# From the SSD to a BAR by its DMA, and from there to another BAR by that of the adapter. What the
# adapter reads and writes in host memory are commands, completions and the tables of its keys.
test_no_byte_in_host_memory() {
	local REMOTE from commands payload=$((8 << 20)) a b ram a_after b_after ram_after
	staged_in "$BDF_A"
	verified "$REMOTE" "$BAR_B" libaio crc32c
	read -r -a a < <(dma_bytes bar-a)
	read -r -a b < <(dma_bytes bar-b)
	read -r -a ram < <(dma_bytes memfd)
	from=$(stat -c %s "$OUT/qemu.log")
	run_fio "$REMOTE" "$BAR_B" io_uring --rw=read
	read -r -a a_after < <(dma_bytes bar-a)
	read -r -a b_after < <(dma_bytes bar-b)
	read -r -a ram_after < <(dma_bytes memfd)
	expect "$payload 0" ssd_bytes "$from"
	expect "$payload 0" echo $((a_after[0] - a[0])) $((a_after[1] - a[1]))
	expect "0 $payload" echo $((b_after[0] - b[0])) $((b_after[1] - b[1]))
	commands=$((ram_after[0] + ram_after[1] - ram[0] - ram[1]))
	[ $commands -lt $((payload / 8)) ] || fail "$commands bytes of host memory"
	note "$payload bytes: all DMA of the SSD is to the first BAR, the adapter reads all there and writes all to the second BAR; commands, completions and tables of keys in host memory: $commands bytes"
	disconnected
	eventually all_free "$BDF_A"
	eventually all_free "$BDF_B"
}

test_memory_that_is_not_published() {
	unbind "$BDF_B"
	echo "$BDF_B publish=0" >$DRIVER/bind_with
	/mnt/programs/iopm info "$BDF_B" | grep -x 'published: no'
	must_fail eval "echo $BDF_B >$NAMESPACE/p2pmem" 2>&1 | grep 'No such device'
	unbind "$BDF_B"
	rebind "$BDF_B"
	/mnt/programs/iopm info "$BDF_B" | grep -x 'published: yes'
	echo "$BDF_B" >"$NAMESPACE/p2pmem"
}

# read_by_the_ssd INSIDE OTHERS: the initiator reads 8 MiB; so many of them come into the first BAR by the
# SSD, and elsewhere.
read_by_the_ssd() {
	local from
	from=$(stat -c %s "$OUT/qemu.log")
	run_fio "$REMOTE" host io_uring --rw=read
	expect "$1 $2" ssd_bytes "$from"
}

# The quota is one of processes. The target has 8 requests of 64 KiB at a time.
test_quota_is_not_for_the_target() {
	local REMOTE
	echo 65536 >$PARAMETERS/quota
	"$RDMA" reg -m 65536 "$BAR_A" | grep -x 'registration: ok'
	refuses 'Disk quota exceeded' "$RDMA" reg -m 131072 "$BAR_A"
	eventually all_free "$BDF_A"
	staged_in "$BDF_A"
	transfers "$REMOTE" host
	read_by_the_ssd $((8 << 20)) 0
	disconnected
	echo >$PARAMETERS/quota
}

# A process with an allocation, and io_peer_mem with it, takes all of a BAR of 64 MiB: the target goes
# on with host memory.
test_process_takes_the_memory() {
	local REMOTE pid
	staged_in "$BDF_A"
	transfers "$REMOTE" host
	launch hold -m 4096 "$BAR_A"
	read_by_the_ssd 0 $((8 << 20))
	kill_and_wait "$pid"
	eventually balanced
	eventually all_free "$BDF_A"
	read_by_the_ssd $((8 << 20)) 0
	disconnected
}

# found_in_the_bar TEXT: prints whether a process finds it in new memory, all of the first BAR.
found_in_the_bar() {
	python3 - "$BAR_A" "$(cat "/sys/bus/pci/devices/$BDF_A/p2pmem/size")" "$1" <<'PYTHON'
import mmap, os, sys

path, size, text = sys.argv[1:]
memory = mmap.mmap(os.open(path, os.O_RDWR), int(size), mmap.MAP_SHARED)
print(memory.find(text.encode()) >= 0)
PYTHON
}
# left_by_the_target: sets $marker, which was data of the target, and is still in the BAR.
left_by_the_target() {
	local REMOTE
	staged_in "$BDF_A"
	write_marker
	disconnected
	eventually all_free "$BDF_A"
	grep -qa "$marker" "$OUT/bar-a"
}

# The memory of the target is not cleared when it is free, but before a process gets it; with
# zero=never the process has the target's data.
test_data_of_the_target_is_cleared() {
	local marker
	left_by_the_target
	expect False found_in_the_bar "$marker"
	must_fail grep -qa "$marker" "$OUT/bar-a"
	unbind "$BDF_A"
	echo "$BDF_A zero=never" >$DRIVER/bind_with
	find_bars
	left_by_the_target
	expect True found_in_the_bar "$marker"
	unbind "$BDF_A"
	rebind "$BDF_A"
}

in_use_now() { ! all_free "$1"; }

# The target goes on with host memory; no request fails.
test_unbind_under_io() {
	local REMOTE pid took
	staged_in "$BDF_A"
	run_fio "$REMOTE" host io_uring --rw=randrw --time_based --runtime=15 >/tmp/fio-io 2>&1 &
	pid=$!
	eventually in_use_now "$BDF_A"
	took_ms unbind_in_time "$BDF_A"
	kill -0 $pid
	verified "$REMOTE" host io_uring crc32c --offset=16M
	ended $pid || { cat /tmp/fio-io; false; }
	grep 'err= 0' /tmp/fio-io
	note "unbind under the target's I/O: $took ms, and no error for the initiator"
	rebind "$BDF_A"
	disconnected
}

test_target_is_removed() {
	remove_target
	rmmod nvme-rdma nvmet-rdma nvmet
}
