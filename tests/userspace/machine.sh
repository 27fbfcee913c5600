# SPDX-License-Identifier: GPL-2.0
#
# A machine as files: /sys, /proc and /dev below a directory, for iopm --sysroot. Sourced by
# tests/userspace/run.

# put PATH TEXT: a file of the machine.
put() {
	mkdir -p "$MACHINE${1%/*}"
	printf '%s\n' "$2" >"$MACHINE$1"
}
# link PATH TARGET: a link; TARGET is a path of the machine.
link() {
	mkdir -p "$MACHINE${1%/*}"
	ln -sfn "$(realpath -m --relative-to="$MACHINE${1%/*}" "$MACHINE$2")" "$MACHINE$1"
}

# function PATH VENDOR DEVICE CLASS [DRIVER]: a PCI function at /sys/devices/PATH, with BAR 2 of
# 16 GiB, prefetchable.
function_at() {
	local path=/sys/devices/$1 name=${1##*/}
	put "$path/vendor" "0x$2"
	put "$path/device" "0x$3"
	put "$path/class" "0x$4"
	put "$path/resource" "0x0 0x0 0x0
0x0 0x0 0x0
0x000000c000000000 0x000000c3ffffffff 0x000000000014220c"
	link "/sys/bus/pci/devices/$name" "$path"
	[ -z "${5:-}" ] || link "$path/driver" "/sys/bus/pci/drivers/$5"
}
# acs PATH CONTROL: the configuration space of a bridge, with the capability ACS at 0x148.
acs() {
	local config=$MACHINE/sys/devices/$1/config
	head -c 4096 /dev/zero >"$config"
	# At 0x100 some other capability, which leads to 0x148.
	printf '\x01\x00\x81\x14' | dd of="$config" bs=1 seek=256 conv=notrunc status=none
	printf '\x0d\x00\x01\x00\x1f\x00' | dd of="$config" bs=1 seek=328 conv=notrunc status=none
	# shellcheck disable=SC2059 # an octal escape
	printf "\\$(printf %o "$2")\x00" | dd of="$config" bs=1 seek=334 conv=notrunc status=none
}
# config PATH: that of a function without capabilities.
config() { head -c 4096 /dev/zero >"$MACHINE/sys/devices/$1/config"; }

# adapter NAME PATH: an RDMA device on the function at PATH.
adapter() {
	local name=${2##*/}
	link "/sys/class/infiniband/$1/device" "/sys/devices/$2"
	put "/sys/class/infiniband/$1/ports/1/state" "4: ACTIVE"
	link "/sys/bus/pci/devices/$name" "/sys/devices/$2"
}

# A server: a GPU and an adapter below one switch, another adapter below another root port.
server() {
	local root=pci0000:80/0000:80:01.0 switch
	switch=$root/0000:81:00.0
	function_at $root 8086 1234 060400
	function_at $switch 1000 c010 060400
	function_at $switch/0000:82:00.0 1000 c010 060400
	function_at $switch/0000:82:00.0/0000:83:00.0 10de 2330 030200 nvidia
	function_at $switch/0000:82:01.0 1000 c010 060400
	function_at $switch/0000:82:01.0/0000:84:00.0 15b3 1021 020700 mlx5_core
	function_at pci0000:00/0000:00:01.0 8086 1234 060400
	function_at pci0000:00/0000:00:01.0/0000:01:00.0 15b3 1021 020700 mlx5_core
	for path in $root $switch $switch/0000:82:00.0 $switch/0000:82:01.0; do acs "$path" 0; done
	for path in $switch/0000:82:00.0/0000:83:00.0 $switch/0000:82:01.0/0000:84:00.0; do config "$path"; done
	adapter mlx5_0 $switch/0000:82:01.0/0000:84:00.0
	adapter mlx5_1 pci0000:00/0000:00:01.0/0000:01:00.0
	put /proc/cpuinfo "processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
"
	put /proc/sys/kernel/osrelease 7.3.4
	put /sys/module/ib_uverbs/refcnt 1
	put /sys/module/ib_peer_mem/refcnt 1
	put /sys/module/ib_peer_mem/version 1.0.0
	put /sys/module/ib_peer_mem/taint O
	put /sys/kernel/security/lockdown '[none] integrity confidentiality'
	put /sys/kernel/debug/ib_peer_mem/devices \
"device	driver	backend	can fence
mlx5_0	mlx5_ib	dma-buf	yes
mlx5_1	mlx5_ib	dma-buf	not seen yet"
	put /sys/kernel/debug/ib_peer_mem/rejections \
"seconds ago	pid	process	address	length	device	client	error	cause"
	put $REGIONS "pid	process	kind	client	device	lkey	address	length	age	state"
}
REGIONS=/sys/kernel/debug/ib_peer_mem/regions
# region PID PROCESS KIND CLIENT DEVICE LKEY ADDRESS LENGTH AGE STATE: a line of the list of regions.
region() { (IFS=$'\t' && printf '%s\n' "$*") >>"$MACHINE$REGIONS"; }

# ssd [CONTROLLER]: an SSD with a BAR, whose disk has a partition. With several paths the disk is that
# of a subsystem, and CONTROLLER one of its controllers.
SSD=0000:05:00.0
ssd() {
	local path=pci0000:00/0000:00:05.0/$SSD disk
	function_at pci0000:00/0000:00:05.0 8086 1234 060400
	function_at $path 144d a80a 010802 nvme
	disk=$path/nvme/nvme0/nvme0n1
	if [ -n "${1:-}" ]; then
		disk=virtual/nvme-subsystem/nvme-subsys0/nvme0n1
		link "/sys/class/nvme-subsystem/nvme-subsys0" /sys/devices/virtual/nvme-subsystem/nvme-subsys0
		put "/sys/devices/$path/nvme/$1/cntlid" 1
		link "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/$1" "/sys/devices/$path/nvme/$1"
	fi
	put "/sys/devices/$disk/dev" 259:0
	put "/sys/devices/$disk/nvme0n1p2/dev" 259:2
	link /sys/class/block/nvme0n1 "/sys/devices/$disk"
	link /sys/class/block/nvme0n1p2 "/sys/devices/$disk/nvme0n1p2"
	put /dev/nvme0n1 disk
	put /dev/nvme0n1p2 partition
	put /proc/swaps 'Filename				Type		Size		Used		Priority'
	put /proc/self/mountinfo '22 1 0:40 / / rw,relatime shared:1 - btrfs /dev/sda2 rw'
	put /sys/module/io_peer_mem/refcnt 0
}

# gpu_drivers: the drivers of NVIDIA's and AMD's GPUs, and what programs look at in a kernel of 7.3. No
# client but io_peer_mem is registered.
CLIENTS=/sys/kernel/mm/memory_peers
gpu_drivers() {
	put /proc/driver/nvidia/version 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57'
	put /dev/kfd device
	put /boot/config-7.3.4 'CONFIG_PCI_P2PDMA=y'
	put /proc/kallsyms '0000000000000000 T ib_register_peer_memory_client	[ib_peer_mem]
0000000000000000 T ib_umem_dmabuf_get	[ib_uverbs]
0000000000000000 T pci_p2pdma_distance_many
0000000000000000 t amdgpu_dma_buf_move_notify	[amdgpu]'
	put $CLIENTS/io_peer_mem/version 1.0.0
}
