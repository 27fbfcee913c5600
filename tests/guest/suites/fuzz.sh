# SPDX-License-Identifier: GPL-2.0
#
# Every call of user space, with valid and invalid arguments, by several processes and threads at
# once: see programs/fuzz.c. On the kernel command line: peer.fuzz_seed=N for another
# sequence of calls, peer.fuzz_calls=N for more calls.

. ./steps.sh
. ./adapter.sh

FUZZ=/mnt/programs/fuzz
SEED=$(parameter fuzz_seed 1)
CALLS=$(parameter fuzz_calls 10000)
# shellcheck disable=SC2034 # init's
TEST_LIMIT=$((600 + CALLS / 50))

# Small BARs: they fill up now and then, and the query of the free memory is fast.
setup() {
	load_stack
	load_core
	load_io_with ranges=2:0:0x200000
	find_bars
	load_exporter
	load_adapter dynamic,revocable,pinned
}

# On both BARs; nothing is left.
test_calls() {
	local options=()
	! is_7_0 || options=(-r)
	"$FUZZ" "${options[@]}" -s "$SEED" -n "$CALLS" -p 2 -d rxe0 -d edu0 -d edu1 -d edu2 "$BAR_A" "$BAR_B" | tee /tmp/fuzz
	note "$(tail -n 1 /tmp/fuzz)"
	note "of these succeeded: $(sed -nE 's/^(.*[^ ]) +[0-9]+, +([0-9]+%) ok.*/\1 \2/p' /tmp/fuzz | paste -sd, | sed 's/,/, /g')"
	all_released
	eventually nothing_imported
	eventually all_free "$BDF_A" "$BDF_B"
}

# A fuzzer that checks nothing would always pass.
test_the_fuzzer_can_fail() {
	must_fail "$FUZZ" -x -n 5000 "$BAR_A" "$BAR_B" >/tmp/fuzz
	grep 'BUG: .* EINVAL is no errno of' /tmp/fuzz
}
