# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# Two hosts, each with the stock mlx5 driver, an SSD and BARs, in the topology connectx_storage: storage
# (Documentation/io_peer_mem.rst) and applications (applications.rst). Sourced by the suites two_mlx5_a and
# two_mlx5_b, see two.sh.

. ./two.sh
. ./nvmet.sh

PAYLOAD=$((8 << 20)) SEED=73

# The target, for the tests as well.
IP=$ROCE_A
# setup_mlx5 IP OTHER-IP ROCE-IP OTHER-ROCE-IP OTHER-MAC
setup_mlx5() {
	setup_host "$1" "$2"
	IP=$ROCE_A
	hostname "host-$HOST"
	roce "$3" "$4" "$5"
	load_disks
	load_fabrics
}

# from_disk_to_disk ACTION OPTION...: disk_remote with the first BAR and the SSD.
from_disk_to_disk() {
	timeout "$PATIENCE" /mnt/programs/disk_remote "$1" -d "$DEV" -x "$GID" -m $PAYLOAD -s $SEED "${@:2}"
}

# counted BAR COMMAND...: sets what was transferred meanwhile by DMA: $ssd, what ssd_bytes prints,
# $bar, the bytes that the adapter read and wrote in that BAR, and $ram, all bytes in host memory.
counted() {
	local from memory=$1 read written before after
	shift
	read -r read written < <(dma_bytes "$memory")
	read -r -a before < <(dma_bytes memfd)
	from=$(stat -c %s "$OUT/qemu.log")
	"$@"
	ssd=$(ssd_bytes "$from")
	read -r -a after < <(dma_bytes "$memory")
	bar="$((after[0] - read)) $((after[1] - written))"
	read -r -a after < <(dma_bytes memfd)
	ram=$((after[0] + after[1] - before[0] - before[1]))
}

# only_bars SSD BAR: what was counted: these bytes, and in host memory no more than commands,
# completions and the tables of keys take.
only_bars() {
	expect "$1" echo "$ssd"
	expect "$2" echo "$bar"
	[ "$ram" -lt $((PAYLOAD / 8)) ] || fail "$ram bytes of host memory"
	note "host ${HOST^}: SSD, in the BAR and elsewhere: $ssd; the adapter, read and written in the BAR: $bar, in host memory: $ram"
}

# mpi_agent: makes the command AGENT, with which Open MPI runs a command on host B: AGENT HOST
# COMMAND... hands it to a shell, as soon as that listens. The daemon on host B looks for the agent
# too: without the agent it calls a null pointer.
AGENT=/tmp/agent
mpi_agent() {
	cat >$AGENT <<-END
		#!/bin/bash
		for ((i = 0; i < 5 * $PATIENCE; i++)); do
			! printf '%s\n' "\${*:2}" | busybox nc $IP_B 18801 || exit 0
			sleep 0.2
		done
		exit 1
	END
	chmod +x $AGENT
}
