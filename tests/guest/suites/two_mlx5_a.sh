# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # HOST is of two.sh
#
# The first of two hosts with the stock mlx5 driver: the one whose data goes to the other host. See
# two_mlx5.sh.

. ./two_mlx5.sh

HOST=a

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

# open_mpi TRANSPORT [OPTION...]: two processes of mpi_bar, one on each host, each with its first BAR, over
# this transport of UCX. mpirun starts its daemon on the other host by a command, as it does by ssh.
open_mpi() {
	local before after transport=$1
	shift
	cat >/tmp/agent <<-END
		#!/bin/bash
		# HOST COMMAND...: for a shell there, as soon as it listens.
		for ((i = 0; i < 200; i++)); do
			! printf '%s\n' "\${*:2}" | busybox nc $IP_B 18801 || exit 0
			sleep 0.2
		done
		exit 1
	END
	chmod +x /tmp/agent
	before=$(counter num_alloc_mrs)
	(
		ulimit -l unlimited
		# No frame passes between the network devices of the adapters.
		export PRTE_MCA_prte_if_include=d0 PMIX_MCA_ptl_tcp_if_include=lo
		exec timeout -k 5 "$PATIENCE" mpirun --prtemca plm_ssh_agent /tmp/agent \
			--host "$IP_A:1,$IP_B:1" -n 2 --map-by node:OVERSUBSCRIBE --allow-run-as-root \
			--mca pml ucx -x "UCX_TLS=$transport" -x "UCX_NET_DEVICES=$DEV:1" "$@" \
			/mnt/programs/mpi_bar "$BAR_A" "$BAR_A" "${SIZES[@]}"
	) >/tmp/mpi 2>&1 || { cat /tmp/mpi; return 1; }
	cat /tmp/mpi
	expect ${#SIZES[@]} grep -c '^exchanged ' /tmp/mpi
	expect ${#SIZES[@]} grep -c '^reduced ' /tmp/mpi
	must_fail grep -E 'UCX +(ERROR|WARN)' /tmp/mpi
	after=$(counter num_alloc_mrs)
	[ "$after" -gt "$before" ]
	note "host A: $(mpirun --version | head -n 1) over UCX, $transport, between two hosts: messages of ${SIZES[*]} bytes and reductions from BAR to BAR, $((after - before)) MRs on the BAR"
	eventually balanced
}
# As in the suite applications.
SIZES=(8 1000 100000 1048576 8388608)
test_open_mpi_rc_verbs() { open_mpi rc_v; }
test_open_mpi_rc_mlx5() { open_mpi rc_x -x UCX_IB_MLX5_DEVX=yes; }

test_target_is_removed() {
	remove_target
	rmmod nvme-rdma nvmet-rdma nvmet
}
