# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # HOST is of two.sh
#
# The second of two hosts with the stock mlx5 driver: the one that gets the data. See two_mlx5.sh.

. ./two_mlx5.sh

HOST=b
CHAIN=yes

setup() { setup_mlx5 "$IP_B" "$IP_A" "$ROCE_B" "$ROCE_A" "$MAC_A"; }

test_disk_to_disk() {
	local ssd bar ram
	must_fail ask_host pattern disk 0 "$PAYLOAD" "$SEED"
	counted bar-a from_disk_to_disk receive "$BAR_A" "$(disk_of disk)"
	# The SSD also reads the bytes back.
	only_bars "$((2 * PAYLOAD)) 0" "0 $PAYLOAD"
	ask_host pattern disk 0 "$PAYLOAD" "$SEED"
}

# The initiator, with host memory, and with memory in a BAR.
test_nvme_over_fabrics() {
	local REMOTE ssd bar ram
	meet offered
	connect_target rdma "$IP"
	verified "$REMOTE" host io_uring crc32c
	transfers "$REMOTE" "$BAR_B"
	verified "$REMOTE" "$BAR_B" libaio sha256
	meet verified
	counted bar-b read_from_a
	only_bars "0 0" "0 $PAYLOAD"
	nvme disconnect -n peer
	eventually disk_is_closed
	meet disconnected
	eventually all_free "$BDF_B"
}
read_from_a() {
	meet counted
	run_fio "$REMOTE" "$BAR_B" io_uring --rw=read
	meet read
}

test_unbind_under_io() {
	local REMOTE pid
	meet offered
	connect_target rdma "$IP"
	run_fio "$REMOTE" host io_uring --rw=randrw --time_based --runtime=15 >/tmp/fio-io 2>&1 &
	pid=$!
	meet running
	meet unbound
	kill -0 $pid
	verified "$REMOTE" host io_uring crc32c --offset=16M
	ended $pid || { cat /tmp/fio-io; false; }
	grep 'err= 0' /tmp/fio-io
	note "host B: no error for the initiator"
	nvme disconnect -n peer
	eventually disk_is_closed
	meet disconnected
}

# One command of the other host: the daemon of Open MPI, until it ends.
open_mpi() {
	local before after
	mpi_agent
	before=$(counter num_alloc_mrs)
	( ulimit -l unlimited && exec timeout -k 5 "$PATIENCE" busybox nc -l -p 18801 -e /bin/sh )
	after=$(counter num_alloc_mrs)
	note "host B: $((after - before)) MRs on the BAR"
	[ "$after" -gt "$before" ]
	eventually balanced
}
test_open_mpi_rc_verbs() { open_mpi; }
test_open_mpi_rc_mlx5() { open_mpi; }
test_open_mpi_libfabric() { open_mpi; }

test_target_is_removed() { rmmod nvme-rdma nvmet-rdma nvmet; }
