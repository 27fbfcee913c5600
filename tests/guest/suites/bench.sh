# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What registrations cost, in instructions, for scripts/bench, which boots a guest whose
# instructions are counted. The rows are in the file bench of the results; bench_mr has the
# columns. peer.bench=short leaves rows out.

MODULES=$MODS/external/tests/bench
BENCH=$(parameter bench full)
KIB=1024 MIB=1048576
SIZES=($((4 * KIB)) $((64 * KIB)) $((2 * MIB)) $((32 * MIB)))
CLIENTS=(1 8 64)
if [ "$BENCH" = short ]; then
	SIZES=($((4 * KIB)) $((2 * MIB)))
	CLIENTS=(1 64)
fi

# rows LABEL TARGET SIZE...
rows() {
	local arguments=() again=1
	# The adapter works while the thread that registers sleeps: only CPU time counts, and that
	# depends on how long it sleeps.
	[ "$DEV" = rxe0 ] || arguments+=(-c) again=3
	: >/tmp/rows
	for ((; again > 0; again--)); do
		/mnt/programs/bench_mr "${arguments[@]}" "$DEV" "$@" >>/tmp/rows
	done
	cat /tmp/rows >>"$OUT/bench"
}

# Before the modules are loaded. The first hundred MRs of a device cost less, as the
# driver's array of MRs is small.
setup() {
	# Whether large MR pages fit depends on the address of a mapping.
	sysctl -qw kernel.randomize_va_space=0
	load_stack
	: >"$OUT/bench"
	rows warm-up host $((4 * KIB)) $((4 * KIB)) $((4 * KIB)) $((4 * KIB))
	: >"$OUT/bench"
}

test_stock() { rows stock host "${SIZES[@]}"; }

test_no_client() {
	load_core
	rows 0-clients host "${SIZES[@]}"
}

test_clients() {
	local n
	for n in "${CLIENTS[@]}"; do
		insmod "$MODULES/bench_clients.ko" clients="$n"
		rows "$n-clients" host "${SIZES[@]}"
		rmmod bench_clients
	done
}

test_bar() {
	local size=("${SIZES[@]}")
	load_io
	find_bars
	# The largest: another MR takes a page of the BAR.
	[ "$BENCH" = short ] || size+=($((64 * MIB - 64 * KIB)))
	rows io_peer_mem host "${SIZES[@]}"
	rows io_peer_mem "bar:$BAR_A" "${size[@]}"
	rows io_peer_mem "first:$BAR_A" $((4 * KIB))
	[ "$DEV" = rxe0 ] || rows io_peer_mem "dmabuf:$BAR_A" "${size[@]}"
	[ "$BENCH" = short ] || rows io_peer_mem "map:$BAR_A" "${size[@]}"
}

test_unloaded() {
	unload_modules
	rows stock-again host "${SIZES[@]}"
}

test_vendor() {
	local n
	[ "$BENCH" != short ] || skip "no budget compares with it"
	for n in "${CLIENTS[@]}"; do
		insmod "$MODULES/bench_vendor.ko" clients="$n"
		rows "vendor-$n-clients" host "${SIZES[@]}"
		rmmod bench_vendor
	done
}
