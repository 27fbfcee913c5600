# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # adapter.sh sets lkey and addr; init uses TESTS
#
# Peer memory in umems that drivers pin by address, through the hook on ib_core: MRs of
# edu0, which imports no dma-bufs as mlx4, hns and qedr; buffers of completion queues of
# edu0 and of edu1, which imports dma-bufs as mlx5. The queues of mlx5_devx do work.

. ./steps.sh
. ./adapter.sh

HOOK=/sys/kernel/debug/ib_peer_mem/umem_hook

# The queues whose memory the kernel lets a driver pin, and the functions that are redirected for that.
before_test() {
	QUEUES="cq cq-va cq-umem"
	HOOKED="ib_umem_get_desc ib_umem_get_cq_buf_or_va dma_buf_get"
	if ! grep -qw ib_umem_get_desc /proc/kallsyms; then
		# Before 7.2 a request does not describe buffers.
		QUEUES="cq cq-va"
		HOOKED="ib_umem_get dma_buf_get"
	elif [ "$(uname -m)" = aarch64 ]; then
		# Into which the compiler has inlined the first one there.
		HOOKED+=" ib_umem_get_attr_or_va"
	fi
	HOOKS=$(wc -w <<<"$HOOKED")
}

setup() {
	load_stack
	load_core
	load_adapter va,dynamic
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true
}

# stop_a: ends process "a", after which no region of the sample client is left. That client is without
# invalidation: the others are not asked for umems, which cannot be fenced.
stop_a() {
	adapter_stop a
	unload_sample
}

# hooked_functions: how many functions of ib_core are redirected.
hooked_functions() {
	local f n=0
	for f in $HOOKED; do
		! grep -qw "^$f" /sys/kernel/tracing/enabled_functions || n=$((n + 1))
	done
	echo $n
}

# moves DEVICE: bytes go from the memory of process "a" to host memory and back by the
# device's DMA; lkey and addr are those of "a".
moves() {
	adapter_say a fill 41
	to_host "$1" 41
	from_host "$1" 43
	adapter_say a check 43
}

# provided DEVICE: the memory of lkey is a client's, in a umem.
provided() {
	expect provided adapter_mr "$1" "$lkey" state
	expect va adapter_mr "$1" "$lkey" mode
	must_fail no_sample_regions
}

# queue NAME DEVICE KIND MEMORY: the memory of a queue.
queue() { adapter_start "$1" -q "$3" "$2" "$4" 2112 9000; }

test_hook_is_placed() {
	expect placed cat $HOOK
	expect "$HOOKS" hooked_functions
	log_all | grep -E "ib_peer_mem: .*hook on ib_core"
}

# The import leaves no descriptor in the process, and works if the process can open no more. A umem on peer
# memory holds the module: the module cannot make the driver release it. A client that is drained serves none.
test_mr() {
	load_sample
	adapter_start a edu0 "$SAMPLE_DEV" 100 5000
	provided edu0
	must_fail grep -l "dmabuf" <(ls -l "/proc/$pid/fd")
	moves edu0
	refuses 'is in use' rmmod ib_peer_mem
	adapter_say a dereg
	eventually no_sample_regions
	expect EINVAL adapter_dma edu0 "read $lkey $addr 1"
	adapter_set "$(adapter_say a reg)"
	provided edu0
	adapter_stop a
	adapter_start a -f edu0 "$SAMPLE_DEV" 0 4096
	provided edu0
	adapter_stop a
	echo 1 >"$PEERS/peer_client_sample/drain"
	expect "error EBUSY" adapter_start none edu0 "$SAMPLE_DEV" 100 5000
	unload_sample
	# A descriptor of a dma-buf would hold the module.
	unload_modules
	load_core
}

test_rereg() {
	load_sample
	adapter_start a -m 65536 edu0 "$SAMPLE_DEV" 0 4096
	adapter_set "$(adapter_say a rereg start 4000 9000)"
	provided edu0
	expect 9000 adapter_mr edu0 "$lkey" length
	moves edu0
	adapter_set "$(adapter_say a rereg host 0 8192)"
	expect host adapter_mr edu0 "$lkey" state
	eventually no_sample_regions
	stop_a
}

# Of a driver without dma-bufs, and of an importer.
test_queues() {
	local device kind
	load_sample
	for device in edu0 edu1; do
		for kind in $QUEUES; do
			log_step "$device $kind"
			queue a "$device" "$kind" "$SAMPLE_DEV"
			provided "$device"
			moves "$device"
			adapter_stop a
			eventually no_sample_regions
		done
	done
	unload_sample
}

# The driver's import of a dma-buf serves the MR, which can be fenced; the hook must not.
test_mr_of_an_importer() {
	load_sample
	adapter_start a edu1 "$SAMPLE_DEV" 100 5000
	expect dynamic adapter_mr edu1 "$lkey" mode
	expect mapped adapter_mr edu1 "$lkey" state
	moves edu1
	stop_a
}

# dma_buf_is_pinned DEVICE: the memory of lkey is a mapping of a dma-buf, which its exporter must not
# move.
dma_buf_is_pinned() {
	expect provided adapter_mr "$1" "$lkey" state
	expect "ok exists=1 attached=1 mapped=1 pinned=1 moves=0 late=0" adapter_say a state
	expect "error EBUSY" adapter_say a move
	moves "$1"
}

# Mappings of dma-bufs of another driver; no client is needed.
test_mapped_dma_bufs() {
	local kind
	load_exporter
	adapter_start a edu0 mapped:test 100 5000
	dma_buf_is_pinned edu0
	adapter_stop a
	for kind in $QUEUES; do
		queue a edu1 "$kind" mapped:test
		dma_buf_is_pinned edu1
		adapter_stop a
	done
	logs_one "edu1: cannot import 9000 bytes of a dma-buf of peer_mem_test_exporter: (EOPNOTSUPP|Error\(95\))" \
		expect "error EOPNOTSUPP" queue none edu1 cq mapped:test:pin-error=95
	unload_exporter
}

# host_memory DEVICE: works as without clients.
host_memory() {
	local kind
	adapter_start a "$1" host 100 20001
	expect host adapter_mr "$1" "$lkey" state
	moves "$1"
	adapter_stop a
	for kind in $QUEUES; do
		log_step "$kind"
		queue a "$1" "$kind" host
		expect host adapter_mr "$1" "$lkey" state
		moves "$1"
		adapter_stop a
	done
}

# edu0: no client is asked for memory that the driver can pin. Not so with edu1: the client says
# that its own memory can be pinned, so it is asked for MRs that a dma-buf can serve.
test_host_memory() {
	load_sample
	host_memory edu1
	trace_calls sample_acquire
	host_memory edu0
	# A client is asked once for other memory.
	adapter_start a edu0 "$SAMPLE_DEV" 0 4096
	adapter_stop a
	queue a edu0 cq "$SAMPLE_DEV"
	adapter_stop a
	expect "error EFAULT" adapter_start a -q cq -m 4096 edu0 host $((1 << 40)) 4096
	traced_calls | tee /tmp/calls
	expect 3 grep -c 'sample_acquire <-' /tmp/calls
	unload_sample
}

# io_peer_mem requires invalidation: a umem cannot be fenced.
test_a_client_that_invalidates() {
	local asked
	load_bars
	asked=$(counter num_alloc_mrs)
	expect "error EREMOTEIO" adapter_start a edu0 "$BAR_A" 0 8192
	logs_one 'client io_peer_mem: cannot serve edu0: .*does not release it on invalidation' \
		expect "error EREMOTEIO" adapter_start a -q cq edu0 "$BAR_A" 0 8192
	expect "error EREMOTEIO" adapter_start a -q cq edu1 "$BAR_A" 0 8192
	expect "$asked" counter num_alloc_mrs
	adapter_start a edu1 "$BAR_A" 0 8192
	expect dynamic adapter_mr edu1 "$lkey" mode
	adapter_stop a
	eventually balanced
	unload_io
}

# Whether RLIMIT_MEMLOCK allows the pages is checked before they are looked up. Peer memory
# does not count against it, host memory does.
test_locked_memory_limit() {
	local ADAPTER_MR=/tmp/limited limit
	load_sample
	for limit in 0 4; do
		cat >/tmp/limited <<-END
			#!/bin/sh
			ulimit -l $limit
			exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock /mnt/programs/adapter_mr "\$@"
		END
		chmod +x /tmp/limited
		if [ $limit = 0 ]; then
			expect "error EPERM" adapter_start a edu0 host 0 16384
		else
			expect "error ENOMEM" adapter_start a edu0 host 0 16384
		fi
		adapter_start a edu0 "$SAMPLE_DEV" 0 16384
		provided edu0
		adapter_stop a
	done
	unload_sample
}

# After the unload ib_core works as before.
test_unload_and_load() {
	unload_modules
	expect 0 hooked_functions
	adapter_start a edu0 host 0 8192
	expect host adapter_mr edu0 "$lkey" state
	adapter_stop a
	load_core
	expect "$HOOKS" hooked_functions
}

# Another user of ftrace modifies one of the functions: the module is loaded without the hook,
# and all else works.
test_hook_refused() {
	unload_modules
	insmod "$MODS/external/tests/symbols/umem_ftrace_test.ko"
	load_core
	# The debug kernel has no names of errors.
	grep -xE 'not placed: (EBUSY|Error\(16\))' $HOOK
	expect 1 hooked_functions
	load_sample
	expect "error EFAULT" adapter_start a edu0 "$SAMPLE_DEV" 0 8192
	adapter_start a edu1 "$SAMPLE_DEV" 0 8192
	expect dynamic adapter_mr edu1 "$lkey" mode
	moves edu1
	stop_a
	unload_modules
	rmmod umem_ftrace_test
	load_core
	expect placed cat $HOOK
	expect "$HOOKS" hooked_functions
}
