# SPDX-License-Identifier: GPL-2.0
#
# How often threads that register at the same time wait for a lock that this project takes, for
# scripts/bench, which boots a guest whose CPUs run at the same time. The tracepoint contention_begin
# counts the waits by their callers. The rows, in the file bench of the results, have the waits of 1,000
# MRs.

. ./steps.sh

EVENT=/sys/kernel/tracing/events/lock/contention_begin
TRIGGER=hist:keys=common_stacktrace:size=16384
MRS=4000

setup() {
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
	load_stack
	load_bars
	: >"$OUT/bench"
}

# waits TARGET[:PATH]: of the locks of the kernel a wait counts for the first caller that is no function of
# a lock.
waits() {
	local threads
	for threads in 2 8; do
		echo $TRIGGER >$EVENT/trigger
		/mnt/programs/bench_threads "$DEV" "$1" $threads $((MRS / threads))
		cat $EVENT/hist >"$OUT/waits-${1%%:*}-$threads"
		echo "!$TRIGGER" >$EVENT/trigger
		awk -v threads=$threads -v target="${1%%:*}" -v mrs=$MRS '
			/stacktrace:/ { caller = "" }
			/^ / && caller == "" && (/\[/ || $1 !~ /lock|mutex|rwsem|down_|up_|sched|trace/) { caller = $0 }
			/hitcount:/ { all += $NF; if (caller ~ /\[i[bo]_peer_mem\]/) ours += $NF }
			END {
				printf "%d-threads %s 4096 waits %d 0 0\n", threads, target, 1000 * ours / mrs
				printf "%d-threads %s 4096 all-waits %d 0 0\n", threads, target, 1000 * all / mrs
			}' "$OUT/waits-${1%%:*}-$threads" >>"$OUT/bench"
	done
}

test_host() { waits host; }
test_bar() { waits "bar:$BAR_A"; }
