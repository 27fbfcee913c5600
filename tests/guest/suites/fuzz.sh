# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Everything that user space can call, with all sorts of arguments, by several threads
# at once: see programs/fuzz.c. On the kernel command line: peer.fuzz_seed=N for other
# calls than those of every run, peer.fuzz_calls=N for more or fewer.

. ./steps.sh

FUZZ=/mnt/programs/fuzz
# shellcheck disable=SC2034 # init's
TEST_LIMIT=600

# parameter NAME DEFAULT: of the kernel command line.
parameter() {
	local word value=$2
	# shellcheck disable=SC2013 # words are meant
	for word in $(cat /proc/cmdline); do
		case $word in "peer.$1="*) value=${word#*=} ;; esac
	done
	echo "$value"
}
SEED=$(parameter fuzz_seed 1)
CALLS=$(parameter fuzz_calls 100000)

# Small BARs: they are full now and then, and counting what is free takes no time.
setup() {
	load_stack
	load_core
	load_io_with ranges=2:0:0x200000
	find_bars
}

# fuzz OPTION...: on both BARs, in the background; its pid in $pid.
fuzz() {
	local options=(-s "$SEED" -d rxe0)
	! grep -q int80_emulation /proc/kallsyms || options+=(-c)
	"$FUZZ" "${options[@]}" "$@" "$BAR_A" "$BAR_B" >/tmp/fuzz 2>&1 &
	pid=$!
}
# fuzzed PID: waits for it; for the reader, how many calls of which kind succeeded.
fuzzed() {
	local rc=0
	wait "$1" || rc=$?
	cat /tmp/fuzz
	[ $rc = 0 ]
	note "$(tail -n 1 /tmp/fuzz)"
	note "of these succeeded: $(sed -nE 's/^(.*[^ ]) +[0-9]+, +([0-9]+%) ok.*/\1 \2/p' /tmp/fuzz | paste -sd, | sed 's/,/, /g')"
	balanced
}

test_calls() {
	local pid
	fuzz -n "$CALLS"
	fuzzed "$pid"
}

# Now one BAR goes and comes again, now the other.
test_calls_while_devices_come_and_go() {
	local pid n=0 bdf calls=$CALLS
	[ "$KIND" != debug ] || calls=$((CALLS / 10))
	fuzz -n "$calls" -t 2
	until gone "$pid"; do
		for bdf in "$BDF_A" "$BDF_B"; do
			nap 0.3
			unbind_in_time "$bdf"
			bind "$bdf"
			n=$((n + 1))
		done
	done
	fuzzed "$pid"
	note "$n times a device was unbound and bound beside it"
	[ $n -ge 2 ]
}

# A fuzzer that does not look would pass always.
test_the_fuzzer_can_fail() {
	must_fail "$FUZZ" -x -n 5000 "$BAR_A" "$BAR_B" >/tmp/fuzz
	grep 'BUG: .* EINVAL is no errno of' /tmp/fuzz
}
