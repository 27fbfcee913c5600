# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # init's, and of the suites below
#
# One guest that goes on: the loops of other suites and rounds of torture over and over, for the seconds of
# peer.long_seconds= (120). Modules, references, files and memory of the kernel are then as after the first turn;
# the suite leaks, which runs last, asks kmemleak.

. ./suites/load.sh
. ./suites/revoke.sh
. ./suites/kill.sh
. ./suites/torture.sh

LASTS=$(parameter long_seconds 120)
TEST_LIMIT=$((LASTS + 3600))
TESTS=test_loops
# Of torture.
ROUNDS=

# turn NUMBER: each loop once.
turn() {
	local loop
	log_step "turn $1"
	unload_modules
	for loop in load_many_times unload_under_registrations client_under_binds unbind_many_times \
		unbind_under_a_reader link_deleted_with_mrs sigkill_many_times; do
		load_bars
		"test_$loop"
	done
	unload_modules
	load_core
	load_io_with ranges=2:0:0x200000
	round $((SEED + $1))
	# An administrator of the round may have deleted it.
	add_rxe
	unload_modules
	load_bars
}

# held: what is there as long as a task or a module has a reference.
held() {
	awk '{ print $1, $3 }' /proc/modules | sort
	find /sys/kernel/debug/ib_peer_mem "$PEERS" /dev/io_peer_mem /sys/class/infiniband | sort
	cat "$REGIONS"
	grep '^Total' /sys/kernel/debug/dma_buf/bufinfo
	in_use
}
# objects: of each size, without those that are free, or will be after a grace period. The kernel keeps a dentry of
# each name that was not found, with an object on 9p, and init looks up new names all the time. The quarantine of
# KASAN keeps the file of each shrink.
objects() {
	local file
	echo 2 >/proc/sys/vm/drop_caches
	nap 3
	for file in /sys/kernel/slab/kmalloc-*/shrink; do echo 1 >"$file"; done
	awk '/^kmalloc-/ { print $1, $2 }' /proc/slabinfo
}

test_loops() {
	local end=$((SECONDS + LASTS)) turns=0 grown
	[ ! -d "$FAILSLAB" ] || log_may '(page allocation failure|vmalloc error): '
	# What is made once.
	turn 0
	held >/tmp/held-before
	objects >/tmp/objects
	while [ $SECONDS -lt $end ]; do
		turns=$((turns + 1))
		turn $turns
	done
	held >/tmp/held-after
	diff /tmp/held-before /tmp/held-after
	grown=$(objects | awk -v turns=$turns 'NR == FNR { before[$1] = $2; next }
		{ by = $2 - before[$1]; if (by > turns / 2 && by > before[$1] / 50) print $1, "by", by }' /tmp/objects -)
	note "$turns turns; objects: $(objects | awk '{ n += $2 } END { print n }'), before: $(awk '{ n += $2 } END { print n }' /tmp/objects)"
	[ $turns -gt 0 ]
	[ -z "$grown" ] || fail "more objects after $turns turns: $grown"
}
