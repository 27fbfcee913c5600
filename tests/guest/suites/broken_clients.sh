# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # card.sh's
#
# The report card fails a client at the point that the client breaks, and not before.

KIT=/mnt/tree/tests/symbols
. ./card.sh
POINTS=$TESTS
TESTS=test_faults

# first_failure HABIT: prints the first point of the card at which a client with this habit fails. No caller
# may be a condition: bash would ignore set -e in all points.
first_failure() {
	local point
	for point in ${POINTS/test_no_memory/}; do
		(set -e; WAIT_LIMIT=10; "$point") >"/tmp/point-$1" 2>&1 3>/dev/null &
		if ! wait $!; then
			echo "$point"
			return
		fi
		[ "$point" != test_loads ] || echo "$1" >/sys/module/replica/parameters/habit
	done
}
# What a fault leaves.
tidy() {
	echo none >/sys/module/replica/parameters/habit
	pkill -9 -x peer_rdma || true
	eventually nothing_registered
	rmmod replica
}

test_faults() {
	local habit want got
	while read -r habit want; do
		got=$(first_failure "$habit")
		cat "/tmp/point-$habit"
		[ "$got" = "test_$want" ] || fail "$habit: ${got:-no point} fails, instead of $want"
		tidy
	done <<-END
		short writes_and_reads
		start offsets_and_lengths
		greedy other_memory
		force read_only_mapping
		deaf invalidates_idle_mrs
		keeps writes_and_reads
	END
}
