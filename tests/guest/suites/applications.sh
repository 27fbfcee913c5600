# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for mpi.sh
#
# Unmodified applications on mapped BARs, over loop-back of the emulated ConnectX: Open MPI over UCX
# and over libfabric, neither of which starts on soft RoCE. Not here: applications on two hosts
# (two_mlx5_a), perftest (rdma), rdma-core's examples (mlx5), rdma-core's tests (pyverbs).
# ucx_perftest and fi_pingpong allocate their memory themselves, and take no BAR.

. ./steps.sh
. ./mpi.sh

place() { MPIRUN=(--oversubscribe) MPI_BARS=("$BAR_A" "$BAR_B") MPI_MRS=2; }

# Queues by the verbs.
test_ucx_rc_verbs() { mpi_ucx rc_v; }

# The queues that UCX chooses for mlx5: CQs, QPs and SRQs by DEVX. Without DEVX the test fails.
test_ucx_rc_mlx5() { mpi_ucx rc_x -x UCX_IB_MLX5_DEVX=yes; }

# UCX chooses among all transports of the adapter.
test_ucx_chooses() { mpi_ucx ib; }

test_libfabric_verbs() { mpi_libfabric; }

# Messages, besides the accesses by address that the suite rdma has.
test_perftest_send() {
	local speed
	speed=$(perftest send "$BAR_A" 65536 200 both) || fail "$speed"
	note "ib_send_bw, both ends in BARs: $speed MiB/s"
}
