# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Where the instructions of a registration go, for PROFILE=1 scripts/bench: the functions of
# one registration and its deregistration, by ftrace's function graph. The traces are in the
# files graph-* of the results.

TRACING=/sys/kernel/tracing

# profile NAME TARGET SIZE
profile() {
	/mnt/programs/bench_mr "$DEV" "$@" >"$OUT/untraced-$1"
	echo 0 >$TRACING/tracing_on
	echo 20000 >$TRACING/buffer_size_kb
	echo mono_raw >$TRACING/trace_clock
	echo function_graph >$TRACING/current_tracer
	echo 1 >$TRACING/options/funcgraph-tail
	echo 0 >$TRACING/options/sleep-time
	: >$TRACING/trace
	/mnt/programs/bench_mr -p "$DEV" "$@" >"$OUT/traced-$1"
	cat $TRACING/trace >"$OUT/graph-$1"
	echo nop >$TRACING/current_tracer
	echo >$TRACING/set_ftrace_pid
}

test_host() { profile host host 4096; }
test_bar() { profile bar "bar:$BAR_A" 4096; }
test_bar_large() { profile bar-2M "bar:$BAR_A" $((2 << 20)); }
test_dmabuf() {
	[ "$DEV" != rxe0 ] || skip "rdma_rxe does not import dma-bufs"
	profile dmabuf "dmabuf:$BAR_A" 4096
}
