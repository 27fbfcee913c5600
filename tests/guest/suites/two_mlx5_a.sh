# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for two.sh and mpi.sh
#
# The first of two hosts with the stock mlx5 driver: the one whose data goes to the other host. See
# two_mlx5.sh.

. ./two_mlx5.sh
. ./mpi.sh

HOST=a
CHAIN=yes

setup() {
	setup_mlx5 "$IP_A" "$IP_B" "$ROCE_A" "$ROCE_B" "$MAC_B"
	make_target rdma "$IP" disk
}

# From the SSD to a BAR here, by RDMA to a BAR there, and from there to the SSD.
test_disk_to_disk() {
	local ssd bar ram
	from_disk_to_disk fill host "$(disk_of disk)"
	ask_host pattern disk 0 "$PAYLOAD" "$SEED"
	counted bar-a from_disk_to_disk send -c "$IP_B" "$BAR_A" "$(disk_of disk)"
	only_bars "$PAYLOAD 0" "$PAYLOAD 0"
}

# The target. Its memory for the data of the initiator is the first BAR.
test_nvme_over_fabrics() {
	local staged ssd bar ram
	offered_in "$BDF_A"
	staged used_by_b
	log_has "nvmet: using p2pmem on $BDF_A for nsid 1"
	# 128 requests of 64 KiB each way, with two memories of the initiator.
	[ "$staged" -ge 512 ] || fail "$staged requests were staged"
	note "host A: $staged requests staged in memory of $BDF_A"
	counted bar-a read_by_b
	only_bars "$PAYLOAD 0" "$PAYLOAD 0"
	meet disconnected
	echo 0 >"$NAMESPACE"/enable
	eventually all_free "$BDF_A"
}
used_by_b() {
	meet offered
	meet verified
}
read_by_b() {
	meet counted
	meet read
}

in_use_now() { ! all_free "$1"; }

# The BAR is unbound under I/O; the target goes on with host memory.
test_unbind_under_io() {
	local took
	offered_in "$BDF_A"
	meet offered
	meet running
	eventually in_use_now "$BDF_A"
	took_ms unbind_in_time "$BDF_A"
	meet unbound
	note "host A: unbind under the target's I/O: $took ms"
	meet disconnected
	echo 0 >"$NAMESPACE"/enable
	rebind "$BDF_A"
}

# A process on each host, each with the first BAR of its host. mpirun starts its daemon on the other
# host by a command, as it does by ssh.
place() {
	mpi_agent
	# No frame passes between the network devices of the adapters.
	export PRTE_MCA_prte_if_include=d0 PMIX_MCA_ptl_tcp_if_include=lo
	MPIRUN=(--prtemca plm_ssh_agent "$AGENT" --host "$IP_A:1,$IP_B:1" --map-by "node:OVERSUBSCRIBE")
	MPI_BARS=("$BAR_A" "$BAR_A") MPI_MRS=1
}
test_open_mpi_rc_verbs() { mpi_ucx rc_v; }
test_open_mpi_rc_mlx5() { mpi_ucx rc_x -x UCX_IB_MLX5_DEVX=yes; }
test_open_mpi_libfabric() { mpi_libfabric; }

test_target_is_removed() {
	remove_target
	rmmod nvme-rdma nvmet-rdma nvmet
}
