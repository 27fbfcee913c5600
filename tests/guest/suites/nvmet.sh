# SPDX-License-Identifier: GPL-2.0
#
# The stock NVMe target with published memory of a BAR, over RDMA (Documentation/io_peer_mem.rst), in the
# topology connectx_storage. The initiator is the stock one, in the same guest: the adapter connects to
# itself.

. ./storage.sh

# shellcheck disable=SC2034 # init's
CHAIN=yes

NVMET=/sys/kernel/config/nvmet
SUBSYSTEM=$NVMET/subsystems/peer
NAMESPACE=$SUBSYSTEM/namespaces/1
PORT=$NVMET/ports/1

setup() {
	load_stack
	load_bars
	load_disks
	modprobe -a configfs nvmet nvmet-rdma nvme-rdma
	stock "$DEV" mlx5_ib nvmet nvmet_rdma nvme_rdma
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	# A target with a subsystem of one namespace, the SSD, staged in the first BAR.
	mkdir $SUBSYSTEM
	echo 1 >$SUBSYSTEM/attr_allow_any_host
	mkdir $NAMESPACE $PORT
	disk_of disk >$NAMESPACE/device_path
	echo "$BDF_A" >$NAMESPACE/p2pmem
	echo rdma >$PORT/addr_trtype
	echo ipv4 >$PORT/addr_adrfam
	echo "$IP" >$PORT/addr_traddr
	echo 4420 >$PORT/addr_trsvcid
	ln -s $SUBSYSTEM $PORT/subsystems/peer
}

# connected: the namespace is enabled, and the initiator connects. Sets REMOTE, its disk.
connected() {
	! is_7_0 || skip "7.0 gives the target's adapter no address of a BAR"
	echo 1 >$NAMESPACE/enable
	nvme connect -t rdma -a "$IP" -s 4420 -n peer | tee /tmp/connect
	REMOTE=/dev/$(sed -n 's/^connecting to device: //p' /tmp/connect)n1
	eventually test -b "$REMOTE"
}
disconnected() {
	nvme disconnect -n peer
	eventually disk_is_closed
	echo 0 >$NAMESPACE/enable
}
disk_is_closed() { [ ! -e "$REMOTE" ]; }

# From the SSD to a BAR by its DMA, and from there to another BAR by that of the adapter. What the
# adapter reads and writes in host memory are commands, completions and the tables of its keys.
test_no_byte_in_host_memory() {
	local REMOTE from commands payload=$((8 << 20)) a b ram a_after b_after ram_after
	connected
	log_has "nvmet: using p2pmem on $BDF_A for nsid 1"
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

# The target goes on with host memory; no request fails.
test_unbind_under_io() {
	local REMOTE pid
	connected
	run_fio "$REMOTE" host io_uring --rw=randrw --time_based --runtime=15 >/tmp/fio-io 2>&1 &
	pid=$!
	eventually must_fail all_free "$BDF_A"
	unbind_in_time "$BDF_A"
	kill -0 $pid
	verified "$REMOTE" host io_uring crc32c --offset=16M
	ended $pid || { cat /tmp/fio-io; false; }
	grep 'err= 0' /tmp/fio-io
	rebind "$BDF_A"
	disconnected
}

test_target_is_removed() {
	rm $PORT/subsystems/peer
	rmdir $NAMESPACE $PORT $SUBSYSTEM
	rmmod nvme-rdma nvmet-rdma nvmet
}
