# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Open MPI, unmodified, with messages in mapped BARs, over UCX and over libfabric. Sourced by suites
# that define place: sets MPIRUN, the options with which mpirun starts two processes where the suite
# wants them, MPI_BARS, their BARs, and MPI_MRS, how many MRs there are at least on BARs of this
# host.

# 8 bytes go within a work request, 1000 bytes through a bounce buffer of the library; from 100000
# bytes on the adapter accesses the BAR.
SIZES=(8 1000 100000 1048576 8388608)

# mpi OPTION...: two processes of mpi_bar. Prints how many MRs io_peer_mem of this host got.
mpi() {
	local before after MPI_MRS MPIRUN=() MPI_BARS=()
	before=$(counter num_alloc_mrs)
	place
	# The memory that a process may lock: as much as a user of RDMA sets.
	( ulimit -l unlimited && exec timeout -k 5 120 mpirun -n 2 --allow-run-as-root "${MPIRUN[@]}" "$@" \
		/mnt/programs/mpi_bar "${MPI_BARS[@]}" "${SIZES[@]}" ) >/tmp/mpi 2>&1 ||
		{ cat /tmp/mpi; return 1; }
	cat /tmp/mpi
	expect ${#SIZES[@]} grep -c '^exchanged ' /tmp/mpi
	expect ${#SIZES[@]} grep -c '^reduced ' /tmp/mpi
	must_fail grep -E 'UCX +(ERROR|WARN)' /tmp/mpi
	after=$(counter num_alloc_mrs)
	[ $((after - before)) -ge "$MPI_MRS" ] || fail "$((after - before)) MRs on BARs"
	note "$(mpirun --version | head -n 1), $MPI_OVER, $DEV: messages of ${SIZES[*]} bytes and reductions from BAR to BAR, $((after - before)) MRs on BARs"
	eventually balanced
}

# mpi_ucx TRANSPORTS [OPTION...]: mpi over these transports of UCX.
mpi_ucx() {
	local transports=$1
	shift
	MPI_OVER="UCX $(ucx_info -v | sed -n 's/^# Library version: //p'), $transports"
	mpi --mca pml ucx -x "UCX_TLS=$transports" -x "UCX_NET_DEVICES=$DEV:1" "$@"
}

# mpi_libfabric: mpi over the provider verbs below ofi_rxm.
mpi_libfabric() {
	MPI_OVER="libfabric $(fi_info --version | sed -n 's/^libfabric: //p'), verbs;ofi_rxm"
	mpi --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' "$@"
}
