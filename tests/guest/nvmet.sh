# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# The stock NVMe target over RDMA, and its initiator. Sourced by the suites nvmet and two_mlx5_*.

. ./storage.sh

CONFIG=/sys/kernel/config/nvmet
SUBSYSTEM=$CONFIG/subsystems/peer
NAMESPACE=$SUBSYSTEM/namespaces/1
PORT=$CONFIG/ports/1

load_fabrics() {
	modprobe -a configfs nvmet nvmet-rdma nvme-rdma
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	stock "$DEV" mlx5_ib nvmet nvmet_rdma nvme_rdma
}

# make_target: a subsystem of one namespace, the SSD, on a port of the RDMA device.
make_target() {
	mkdir $SUBSYSTEM
	echo 1 >$SUBSYSTEM/attr_allow_any_host
	mkdir $NAMESPACE $PORT
	disk_of disk >$NAMESPACE/device_path
	echo rdma >$PORT/addr_trtype
	echo ipv4 >$PORT/addr_adrfam
	echo "$IP" >$PORT/addr_traddr
	echo 4420 >$PORT/addr_trsvcid
	ln -s $SUBSYSTEM $PORT/subsystems/peer
}

# staged_in P2PMEM: the namespace is enabled with this value of p2pmem, and the initiator connects. Sets
# REMOTE, its disk.
staged_in() {
	offered_in "$1"
	connected
}
offered_in() {
	echo "$1" >$NAMESPACE/p2pmem
	echo 1 >$NAMESPACE/enable
}
connected() {
	local controller
	nvme connect -t rdma -a "$IP" -s 4420 -n peer | tee /tmp/connect
	controller=$(sed -n 's/^connecting to device: //p' /tmp/connect)
	REMOTE=/dev/${controller}n1
	eventually test -b "$REMOTE"
}
disconnected() {
	nvme disconnect -n peer
	eventually disk_is_closed
	echo 0 >$NAMESPACE/enable
}
disk_is_closed() { [ ! -e "$REMOTE" ]; }

remove_target() {
	rm $PORT/subsystems/peer
	rmdir $NAMESPACE $PORT $SUBSYSTEM
}

# staged COMMAND...: sets $staged, the number of requests whose data got published memory meanwhile.
staged() {
	trace_calls pci_p2pmem_alloc_sgl
	"$@"
	staged=$(traced_calls | grep -c .)
}
