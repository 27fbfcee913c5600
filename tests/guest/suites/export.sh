# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # lkey and addr are of tests/guest/adapter.sh
#
# Peer memory as dma-bufs: /dev/ib_peer_mem exports a range of addresses, and the test
# adapter registers the dma-buf as any other. edu0 imports as mlx5 does, edu1 as irdma,
# edu2 as efa and bnxt_re.

. ./steps.sh
. ./adapter.sh

setup() {
	load_stack
	load_modules
	load_adapter dynamic,revocable,pinned
	find_bars
}

test_node() {
	expect "666" stat -c %a /dev/ib_peer_mem
	refuses 'Invalid argument' cat /dev/ib_peer_mem
}

test_dma_between_bars_dynamic() { copies edu0 export:; }
test_dma_between_bars_revocable() { copies edu1 export:; }

# An export counts as an MR.
test_counters() {
	local before
	before=$(counter num_alloc_mrs)
	adapter_start one edu0 "export:$BAR_A" 100 5000
	expect "1 $(pages 100 5000) $(($(pages 100 5000) * PAGE))" in_use
	adapter_stop one
	eventually balanced
	expect $((before + 1)) counter num_alloc_mrs
}

# The interposed verbs are not involved.
test_without_interposed_verbs() {
	expect "" served_by_us
	adapter_start one edu0 "export:$BAR_A" 0 4096
	expect "" served_by_us
	adapter_stop one
}
served_by_us() { awk '$1 == "edu0" && /yes/' /sys/kernel/debug/ib_peer_mem/devices; }

# io_peer_mem requires invalidation, which a pinning driver does not support.
test_pinning_driver() {
	expect "error EOPNOTSUPP" adapter_start none edu2 "export:$BAR_A" 0 4096
	eventually balanced
}

# A persistent client in C, which uses the old functions alone, and a pinning driver.
test_persistent_client_and_a_pinning_driver() {
	copies_of_sample edu2 export:
}

test_revoke_dynamic() { revoked edu0 export:; }
test_revoke_revocable() { revoked edu1 export:; }

test_killed_process() {
	adapter_start one edu0 "export:$BAR_A" 0 65536
	adapter_start two edu1 "export:$BAR_A" 0 65536
	adapter_kill one two
	eventually balanced
}

test_adapter_goes() {
	local bdf
	bdf=$(adapter_bdf edu0)
	adapter_start user edu0 "export:$BAR_A" 0 65536
	unbind_in_time "$bdf"
	eventually balanced
	adapter_kill user
	adapter_bind "$bdf" edu0
}

# Users add fences to exported dma-bufs that no device maps: an unbind does not wait for them. The
# program runs as a user who may open the BAR and a GPU.
test_fences_of_a_user() {
	local number card took
	modprobe vgem 2>/dev/null || skip "this kernel has no vgem"
	eventually test -e /sys/devices/faux/vgem/drm
	card=/dev/dri/$(basename /sys/devices/faux/vgem/drm/card*)
	eventually test -c "$card"
	chgrp video "$card"
	chmod 660 "$card"
	for number in 1 1000; do
		chgrp video "$BAR_A"
		chmod 660 "$BAR_A"
		: >/tmp/fences
		as video "$FENCES" $number "$BAR_A" "$card" >/tmp/fences 2>&1 &
		set -- $!
		wait_line /tmp/fences '^ready$'
		trace_calls ext_dma_resv_wait
		took_ms unbind_in_time "$BDF_A"
		note "$number exports, each with a fence that is not signalled: unbind in $took ms"
		expect "" traced_calls
		gone "$1" && { cat /tmp/fences; return 1; }
		kill_and_wait "$1"
		balanced
		rebind "$BDF_A"
	done
}
FENCES=/mnt/programs/export_fences

# The whole BAR, and its last page.
test_lengths() {
	local size=$((32 << 20))
	adapter_start user edu0 "export:$BAR_B" 0 $size
	note "$size bytes as a dma-buf: $(adapter_entries edu0 "$lkey") entries"
	[ "$(adapter_entries edu0 "$lkey")" -le $(((size >> 21) + 1)) ]
	adapter_stop user
	adapter_start user edu0 "export:$BAR_B" $((size - 1)) 1
	adapter_stop user
	eventually balanced
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
