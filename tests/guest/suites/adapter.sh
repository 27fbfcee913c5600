# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # adapter.sh sets lkey and addr
#
# The test RDMA adapter without peer memory: the tests of peer memory rely on it. Its dma-bufs are in the
# suites dma_buf and export.

. ./adapter.sh

setup() {
	load_stack
	load_adapter
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
	expect EMSGSIZE adapter_dma edu0 "raw-write 0 4096"
	expect EINVAL adapter_dma edu0 "raw-write 0 0"
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
