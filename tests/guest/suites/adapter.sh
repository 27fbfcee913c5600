# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # adapter.sh sets lkey and addr
#
# The test RDMA adapter without peer memory: host memory and dma-bufs of the kernel's
# udmabuf. The tests of peer memory rely on it. Needs three edu devices:
# QEMU_ARGS='-device edu,dma_mask=0xffffffffffffffff' three times.

. ./adapter.sh

setup() {
	load_stack
	load_adapter dynamic,revocable,pinned
	adapter_there edu1
	adapter_there edu2
}

test_devices() {
	local device want=(dynamic revocable pinned) i=0
	for device in edu0 edu1 edu2; do
		ibv_devices | grep -w $device
		dmesg | grep -E "peer_mem_test_adapter $(adapter_bdf $device): $device: imports dma-bufs as ${want[i]}\$"
		expect "" adapter_mrs $device
		i=$((i + 1))
	done
	must_fail grep -q . "$ADAPTER/edu0/dma"
}

test_host_mr() {
	adapter_start a edu0 host 100 10000
	expect host adapter_mr edu0 "$lkey" state
	expect "$addr" adapter_mr edu0 "$lkey" iova
	expect 10000 adapter_mr edu0 "$lkey" length
	expect 0x1000 adapter_mr edu0 "$lkey" page_size
	adapter_mrs edu0
	adapter_stop a
	expect "" adapter_mrs edu0
}

# The MR begins and ends inside pages and exceeds the device's buffer.
test_copy() {
	local from
	adapter_start a edu0 host 100 20001
	from="$lkey $addr"
	adapter_say a fill 7
	adapter_start b edu0 host 333 20001
	adapter_say b fill 8
	must_fail adapter_say b check 7
	adapter_dma edu0 "copy $from $lkey $addr 20001"
	adapter_say b check 7
	adapter_say a check 7
	note "20001 bytes from one MR to another by the DMA of $(adapter_bdf edu0)"
	# The bytes beside the copied range are unchanged.
	adapter_say b fill 9
	adapter_dma edu0 "copy $from $lkey $((addr + 1)) 19999"
	expect "error MISMATCH at=1" adapter_say b check 9
	adapter_dma edu0 "copy $from $lkey $addr 1"
	expect "error MISMATCH at=0" adapter_say b check 9
	adapter_stop a b
}

# Each device has a separate buffer and separate keys.
test_read_and_write() {
	local a
	adapter_start a edu1 host 0 4095
	a="$lkey $addr"
	adapter_say a fill 3
	adapter_start b edu1 host 4095 4095
	adapter_dma edu1 "read $a 4095"
	adapter_say a fill 4
	adapter_dma edu1 "write $lkey $addr 4095"
	adapter_say b check 3
	expect EINVAL adapter_dma edu0 "read $lkey $addr 1"
	adapter_stop a b
}

test_dma_addresses() {
	local dma
	adapter_start a edu0 host 0 4000
	adapter_say a fill 5
	dma=$(adapter_mr edu0 "$lkey" dma)
	expect 0x1000 echo "${dma#*+}"
	adapter_dma edu0 "raw-read ${dma%+*} 4000"
	adapter_say a fill 6
	adapter_dma edu0 "raw-write ${dma%+*} 4000"
	to_host edu0 5
	adapter_stop a
}

test_bad_commands() {
	local command
	adapter_start a edu0 host 100 10000
	for command in "" read "read $lkey $addr" "read $lkey $addr -1" "erase $lkey $addr 1" \
		"read $lkey $addr 1 1" "read $((lkey + 1)) $addr 1" "read 0 $addr 1" \
		"read $lkey $addr 0" "read $lkey $((addr - 1)) 1" "read $lkey $((addr + 10000)) 1" \
		"read $lkey $((addr + 9999)) 2" "read $lkey 0xffffffffffffffff 2" "read $lkey 0 1" \
		"copy $lkey $addr $lkey $addr 0" "copy $lkey $addr $lkey $addr 10001"; do
		log_step "$command"
		expect EINVAL adapter_dma edu0 "$command"
	done
	expect EMSGSIZE adapter_dma edu0 "read $lkey $addr 4096"
	expect EMSGSIZE adapter_dma edu0 "write $lkey $addr 10000"
	expect EMSGSIZE adapter_dma edu0 "raw-read 0 4096"
	expect EINVAL adapter_dma edu0 "raw-read 0 0"
	adapter_dma edu0 "read $lkey $((addr + 9999)) 1"
	adapter_stop a
}

test_access_rights() {
	adapter_start a edu0 host 0 4096 remote-read
	adapter_dma edu0 "read $lkey $addr 16"
	expect EACCES adapter_dma edu0 "write $lkey $addr 16"
	expect EACCES adapter_dma edu0 "copy $lkey $addr $lkey $addr 16"
	adapter_stop a
	expect "error EOPNOTSUPP" adapter_start a edu0 host 0 4096 local-write,mw-bind
	expect "error EOPNOTSUPP" adapter_start a edu0 host 0 4096 local-write,on-demand
	# Relaxed ordering is optional: the device may ignore it.
	adapter_start a edu0 host 0 4096 all,relaxed
	adapter_stop a
}

test_no_such_memory() {
	expect "error EINVAL" adapter_start a -m 4096 edu0 host 0 0
	expect "error EFAULT" adapter_start a -m 4096 edu0 host $((1 << 40)) 4096
	expect "" adapter_mrs edu0
}

test_key_is_dead_after_dereg() {
	local old
	adapter_start a edu0 host 0 4096
	adapter_dma edu0 "read $lkey $addr 16"
	adapter_say a dereg
	expect EINVAL adapter_dma edu0 "read $lkey $addr 16"
	old=$lkey
	adapter_set "$(adapter_say a reg)"
	[ "$old" != "$lkey" ]
	adapter_dma edu0 "read $lkey $addr 16"
	expect EINVAL adapter_dma edu0 "read $old $addr 16"
	adapter_stop a
}

test_rereg() {
	local key
	adapter_start a edu0 host 0 8192
	key=$lkey
	adapter_set "$(adapter_say a rereg start 4096 100)"
	[ "$key" = "$lkey" ]
	expect 100 adapter_mr edu0 "$lkey" length
	expect EINVAL adapter_dma edu0 "read $lkey $((addr - 4096)) 16"
	adapter_dma edu0 "write $lkey $addr 100"
	adapter_say a rereg access remote-read
	expect EACCES adapter_dma edu0 "write $lkey $addr 100"
	adapter_say a rereg access all pd
	adapter_dma edu0 "write $lkey $addr 100"
	adapter_say a rereg host 33 5000
	expect 5000 adapter_mr edu0 "$lkey" length
	expect "error EOPNOTSUPP" adapter_say a rereg access mw-bind
	expect "error EINVAL" adapter_say a rereg start 0 0
	expect 5000 adapter_mr edu0 "$lkey" length
	adapter_stop a
	# Memory that was pinned for reading cannot become writable.
	adapter_start a edu0 host 0 4096 remote-read
	expect "error EACCES" adapter_say a rereg access all
	adapter_stop a
}

# dma_buf DEVICE MODE: with udmabuf, the kernel's exporter of host memory.
dma_buf() {
	local from
	[ -e /dev/udmabuf ] || modprobe udmabuf 2>/dev/null || skip "this kernel has no udmabuf"
	adapter_start a "$1" udmabuf 5000 20001
	from="$lkey $addr"
	expect "$2" adapter_mr "$1" "$lkey" mode
	expect mapped adapter_mr "$1" "$lkey" state
	note "$1: $(adapter_mrs "$1")"
	adapter_say a fill 11
	adapter_start b "$1" host 77 20001
	adapter_dma "$1" "copy $from $lkey $addr 20001"
	adapter_say b check 11
	adapter_say b fill 12
	adapter_dma "$1" "copy $lkey $addr $from 20001"
	adapter_say a check 12
	adapter_say a dereg
	expect EINVAL adapter_dma "$1" "read $from 1"
	adapter_say a reg
	# From a dma-buf to host memory.
	adapter_set "$(adapter_say a rereg host 0 4096)"
	expect host adapter_mr "$1" "$lkey" state
	adapter_stop b a
	expect "" adapter_mrs "$1"
}
test_dma_buf_dynamic() { dma_buf edu0 dynamic; }
test_dma_buf_revocable() { dma_buf edu1 revocable; }
test_dma_buf_pinned() { dma_buf edu2 pinned; }

test_killed() {
	local device
	for device in edu0 edu1 edu2; do
		adapter_start a $device host 0 100000
		[ ! -e /dev/udmabuf ] || adapter_start b $device udmabuf 0 100000
		adapter_kill a
		[ ! -e /dev/udmabuf ] || adapter_kill b
		eventually no_mrs $device
	done
}

# A deregistration waits for the running DMA; the rest of the copy finds no MR.
test_dereg_during_copy() {
	local from copy
	adapter_start a edu0 host 0 100000
	from="$lkey $addr"
	adapter_start b edu0 host 0 100000
	adapter_dma edu0 "copy $from $lkey $addr 100000" >/tmp/copy &
	copy=$!
	sleep 1
	adapter_say a dereg
	must_fail wait $copy
	expect EINVAL cat /tmp/copy
	adapter_stop a b
}

# The device is unbound while it is open, as mlx5 and irdma support it.
test_unbind_and_bind() {
	local bdf
	bdf=$(adapter_bdf edu1)
	adapter_start a edu1 host 0 4096
	unbind "$bdf"
	[ ! -e /sys/class/infiniband/edu1 ]
	expect ENOENT adapter_dma edu1 "read $lkey $addr 1"
	adapter_stop a
	adapter_bind "$bdf" edu1
	adapter_start a edu1 host 0 4096
	adapter_dma edu1 "read $lkey $addr 1"
	adapter_stop a
	dmesg | grep "$bdf: edu1: imports dma-bufs as" | tail -n 1 | grep revocable
}

test_bad_modes() {
	local modes
	unload_adapter
	for modes in zzz dynamic,,pinned "dynamic," Pinned; do
		insmod_refuses "modes: must be a list" "$MODS/peer_mem_test_adapter.ko" "modes=$modes"
	done
	load_adapter pinned
	dmesg | grep "edu2: imports dma-bufs as" | tail -n 1 | grep pinned
}

# As for mlx5 and irdma, the module can be removed while the device is open.
test_module_is_removed_while_open() {
	adapter_start a edu0 host 0 4096
	unload_adapter
	[ ! -e "$ADAPTER" ]
	[ ! -e /sys/class/infiniband/edu0 ]
	adapter_stop a
}

test_load_five_times() {
	for _ in 1 2 3 4 5; do
		load_adapter dynamic
		unload_adapter
	done
}
