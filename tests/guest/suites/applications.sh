# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Unmodified applications on mapped BARs, over loop-back of the emulated ConnectX: Open MPI over UCX
# and over libfabric. Not here: perftest (rdma), rdma-core's examples (mlx5), rdma-core's tests
# (pyverbs). ucx_perftest and fi_pingpong allocate their memory themselves, and take no BAR.

. ./steps.sh

# 8 bytes go within a work request, 1000 bytes through a bounce buffer of the library; from 100000
# bytes on the adapter accesses the BAR.
SIZES=(8 1000 100000 1048576 8388608)

# mpi OPTION...: two processes of mpi_bar, each with a BAR. Prints how many MRs io_peer_mem got.
mpi() {
	local before after options=(-n 2 --oversubscribe --allow-run-as-root)
	before=$(counter num_alloc_mrs)
	# The memory that a process may lock: as much as a user of RDMA sets.
	( ulimit -l unlimited && exec timeout 120 mpirun "${options[@]}" "$@" \
		/mnt/programs/mpi_bar "$BAR_A" "$BAR_B" "${SIZES[@]}" ) >/tmp/mpi 2>&1 ||
		{ cat /tmp/mpi; return 1; }
	cat /tmp/mpi
	expect ${#SIZES[@]} grep -c '^exchanged ' /tmp/mpi
	expect ${#SIZES[@]} grep -c '^reduced ' /tmp/mpi
	must_fail grep -E 'UCX +(ERROR|WARN)' /tmp/mpi
	after=$(counter num_alloc_mrs)
	# Of each BAR at least one.
	[ $((after - before)) -ge 2 ] || fail "$((after - before)) MRs on BARs"
	note "$(mpirun --version | head -n 1), $MPI_OVER: messages of ${SIZES[*]} bytes and reductions from BAR to BAR, $((after - before)) MRs on BARs"
	eventually balanced
}

# ucx TRANSPORTS [OPTION...]: mpi over these transports of UCX.
ucx() {
	local transports=$1
	shift
	MPI_OVER="UCX $(ucx_info -v | sed -n 's/^# Library version: //p'), $transports"
	mpi --mca pml ucx -x "UCX_TLS=$transports" -x "UCX_NET_DEVICES=$DEV:1" "$@"
}

# Queues by the verbs.
test_ucx_rc_verbs() { ucx rc_v; }

# The queues that UCX chooses for mlx5: CQs, QPs and SRQs by DEVX. Without DEVX the test fails.
test_ucx_rc_mlx5() { ucx rc_x -x UCX_IB_MLX5_DEVX=yes; }

# UCX chooses among all transports of the adapter.
test_ucx_chooses() { ucx ib; }

# The provider verbs below ofi_rxm.
test_libfabric_verbs() {
	MPI_OVER="libfabric $(fi_info --version | sed -n 's/^libfabric: //p'), verbs;ofi_rxm"
	mpi --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm'
}

# Messages, besides the accesses by address that the suite rdma has.
test_perftest_send() {
	local speed
	speed=$(perftest send "$BAR_A" 65536 200 both) || fail "$speed"
	note "ib_send_bw, both ends in BARs: $speed MiB/s"
}
