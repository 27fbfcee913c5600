# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# The stock NVMe target over RDMA, and its initiator. Sourced by the suites nvmet and two_mlx5_*.

. ./storage.sh

load_fabrics() {
	modprobe -a configfs nvmet nvmet-rdma nvme-rdma
	stock "$DEV" mlx5_ib nvmet nvmet_rdma nvme_rdma
}

# staged_in P2PMEM: the namespace is enabled with this value of p2pmem, and the initiator connects. Sets
# REMOTE, its disk.
staged_in() {
	offered_in "$1"
	connect_target rdma "$IP"
}
offered_in() {
	echo "$1" >"$NAMESPACE"/p2pmem
	echo 1 >"$NAMESPACE"/enable
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
