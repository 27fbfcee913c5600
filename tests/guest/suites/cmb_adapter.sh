# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # lkey and addr are of tests/guest/adapter.sh
#
# The controller memory buffer of an SSD as peer memory of the test adapter: of a device with its own
# DMA, where soft RoCE gets no memory of a BAR (arm64).

. ./steps.sh
. ./adapter.sh
. ./cmb.sh

setup() {
	load_stack
	load_bars
	load_adapter dynamic,revocable,pinned
	load_ssd
}

test_driver_is_stock() { nvme_is_stock; }

test_write_and_read_back() {
	adapter_start buffer edu0 -m $((1 << 20)) "$CMB" 12345 20001
	from_host edu0 51
	to_host edu0 51
	adapter_stop buffer
	eventually balanced
	all_free
}

test_from_the_bar() {
	local key at
	adapter_start bar edu0 "$BAR_A" 4097 10000
	from_host edu0 52
	key=$lkey at=$addr
	adapter_start buffer edu0 -m $((1 << 20)) "$CMB" 100 10000
	adapter_dma edu0 copy "$key" "$at" "$lkey" "$addr" 10000
	to_host edu0 52
	adapter_stop buffer bar
	eventually balanced
	all_free
}

test_unbind_revokes() {
	local host_key host_addr
	adapter_start host edu0 host 0 8192
	host_key=$lkey host_addr=$addr
	adapter_start buffer edu0 "$CMB" 0 8192
	adapter_dma edu0 copy "$host_key" "$host_addr" "$lkey" "$addr" 8192
	unbind_in_time "$BDF_SSD"
	expect EACCES adapter_dma edu0 copy "$host_key" "$host_addr" "$lkey" "$addr" 8192
	expect EACCES adapter_dma edu0 read "$lkey" "$addr" 1
	adapter_stop host buffer
	balanced
	bind_ssd
}

test_the_ssd_still_works() { ssd_reads_zeros; }
