# SPDX-License-Identifier: GPL-2.0
#
# Unmodified applications on mapped BARs, over loop-back of the emulated ConnectX: Open MPI over UCX
# and over libfabric, neither of which starts on soft RoCE. Not here: applications on two hosts
# (mooncake_a), perftest (rdma, mlx5), rdma-core's examples (mlx5), rdma-core's tests (pyverbs).
# ucx_perftest and fi_pingpong allocate their memory themselves, and take no BAR.

. ./steps.sh

# 8 bytes go within a work request, 1000 bytes through a bounce buffer of the library; from 100000
# bytes on the adapter accesses the BAR.
SIZES=(8 1000 100000 1048576 8388608)

# mpi OPTION...: two processes of mpi_bar, each with a BAR.
mpi() {
	local before after
	before=$(counter num_alloc_mrs)
	# The memory that a process may lock: as much as a user of RDMA sets.
	( ulimit -l unlimited && exec timeout -k 5 120 mpirun -n 2 --allow-run-as-root --oversubscribe "$@" \
		/mnt/programs/mpi_bar "$BAR_A" "$BAR_B" "${SIZES[@]}" ) >/tmp/mpi 2>&1 ||
		{ cat /tmp/mpi; return 1; }
	cat /tmp/mpi
	expect ${#SIZES[@]} grep -c '^exchanged ' /tmp/mpi
	expect ${#SIZES[@]} grep -c '^reduced ' /tmp/mpi
	must_fail grep -E 'UCX +(ERROR|WARN)' /tmp/mpi
	after=$(counter num_alloc_mrs)
	[ $((after - before)) -ge 2 ] || fail "$((after - before)) MRs on BARs"
	note "$(mpirun --version | head -n 1), $DEV: messages of ${SIZES[*]} bytes and reductions from BAR to BAR, $((after - before)) MRs on BARs"
	eventually balanced
}
# mpi_ucx TRANSPORTS [OPTION...]: mpi over these transports of UCX.
mpi_ucx() { mpi --mca pml ucx -x "UCX_TLS=$1" -x "UCX_NET_DEVICES=$DEV:1" "${@:2}"; }

test_ucx_rc_verbs() { mpi_ucx rc_v; }

# The queues that UCX chooses for mlx5: CQs, QPs and SRQs by DEVX. Without DEVX the test fails.
test_ucx_rc_mlx5() { mpi_ucx rc_x -x UCX_IB_MLX5_DEVX=yes; }

# The provider verbs below ofi_rxm.
test_libfabric_verbs() {
	mpi --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm'
}
