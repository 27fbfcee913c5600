# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # for the suites
#
# Storage on BARs: disks, and unmodified programs that transfer between a disk and mapped memory.
# Sourced by the suites storage, topo_ssd and nvmet.

. ./steps.sh

# load_disks: the stock driver, and the SSDs of scripts/topology by their serial numbers.
load_disks() {
	modprobe nvme
	eventually disk_of disk
}

# disk_of SERIAL: prints the block device of that SSD; its number can change with each bind.
disk_of() {
	local controller serial
	for controller in /sys/class/nvme/nvme*; do
		{ read -r serial <"$controller/serial"; } 2>/dev/null || continue
		[ "$serial" = "$1" ] || continue
		[ -b "/dev/${controller##*/}n1" ] || return 1
		echo "/dev/${controller##*/}n1"
		return
	done
	return 1
}
# ssd_of SERIAL: prints its PCI function.
ssd_of() {
	local disk
	disk=$(disk_of "$1") && basename "$(readlink -f "/sys/block/${disk##*/}/device/device")"
}

io() { python3 storage_io.py "$@"; }

# transfers FILE MEMORY [OPTION...]: 64 KiB to the file and back.
transfers() {
	expect "write 65536
read 65536
same True" io "$@"
}
# both_fail ERRNO FILE MEMORY [OPTION...]: the transfers in both directions.
both_fail() {
	expect "write $1
read $1" io "${@:2}"
}

# run_fio FILE MEMORY ENGINE OPTION...: fio with its buffers in MEMORY, which it maps; "host": in
# host memory.
run_fio() {
	local memory=mmapshared:$2
	[ "$2" != host ] || memory=malloc
	fio --name=job "--filename=$1" --direct=1 "--mem=$memory" "--ioengine=$3" \
		--bs=64k --size=8M --iodepth=8 --verify_state_save=0 "${@:4}"
}
# verified FILE MEMORY ENGINE HASH [OPTION...]: writes at random, and reads back what is then
# verified by the CPU in the buffers.
verified() {
	run_fio "$1" "$2" "$3" --rw=randwrite "--verify=$4" "${@:5}" >/tmp/fio 2>&1 || {
		cat /tmp/fio
		return 1
	}
	grep -E '(READ|WRITE): ' /tmp/fio
	note "fio, $3, $4: $(sed -nE 's/^ *(READ|WRITE): bw=([^ ]*).* io=([^ ]*).*/\1 \3 at \2/p' /tmp/fio | tr '\n' ' ')"
}

# dma_bytes MEMORY: the bytes that the adapter has read and written there by DMA. "memfd" is host memory.
dma_bytes() {
	local bytes
	bytes=$(ask_host connectx report |
		sed -nE "s/^DMA [^ ]*$1[^ ]*: ([0-9]+) bytes read, ([0-9]+) bytes written$/\1 \2/p")
	echo "${bytes:-0 0}"
}
# ssd_bytes FROM: the bytes that the SSD has transferred since the log of QEMU had the size FROM: to and
# from the first BAR, and all others.
ssd_bytes() {
	local start end _
	{ read -r _; read -r _; read -r start end _; } <"/sys/bus/pci/devices/$BDF_A/resource"
	python3 - "$OUT/qemu.log" "$1" "$start" "$end" <<'PYTHON'
import re, sys

path, begin, start, end = sys.argv[1], *(int(word, 0) for word in sys.argv[2:])
inside = others = 0
with open(path, "rb") as log:
    log.seek(begin)
    for addr, length in re.findall(rb"pci_nvme_map_addr addr (0x[0-9a-f]+) len (\d+)", log.read()):
        if start <= int(addr, 16) and int(addr, 16) + int(length) - 1 <= end:
            inside += int(length)
        else:
            others += int(length)
print(inside, others)
PYTHON
}
