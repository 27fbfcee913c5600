# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # lkey and addr are of tests/guest/adapter.sh
#
# Peer memory as dma-bufs: /dev/ib_peer_mem exports a range of addresses, and the test
# adapter, which imports as mlx5 does, registers the dma-buf as any other.

. ./steps.sh
. ./adapter.sh

setup() {
	load_stack
	load_bars
	load_adapter
}

test_node() {
	expect "666" stat -c %a /dev/ib_peer_mem
	refuses 'Invalid argument' cat /dev/ib_peer_mem
}

test_unbind() {
	local host peer
	adapter_start host edu0 host 0 8192
	host="$lkey $addr"
	adapter_start peer edu0 "export:$BAR_A" 4096 8192
	peer="$lkey $addr"
	adapter_dma edu0 "copy $host $peer 8192"
	unbind_in_time "$BDF_A"
	expect EACCES adapter_dma edu0 "copy $host $peer 8192"
	adapter_stop peer host
	eventually balanced
	rebind "$BDF_A"
}

test_host_memory() {
	logs_one "export: no client claims $PAGE bytes" \
		expect "error EFAULT" adapter_start none edu0 export:/dev/zero 0 "$PAGE"
}

test_module_is_pinned() {
	adapter_start user edu0 "export:$BAR_A" 0 4096
	refuses 'is in use' rmmod ib_peer_mem
	adapter_stop user
	eventually balanced
}
