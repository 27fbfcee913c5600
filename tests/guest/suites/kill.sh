# SPDX-License-Identifier: GPL-2.0
#
# Processes that end by SIGKILL.

. ./steps.sh

# shellcheck disable=SC2034 # init's
TEST_LIMIT=$((TEST_LIMIT + 5 * ROUNDS))

test_sigkill_with_mrs() {
	local pid
	launch hold -n 8 -m 4194304 -o 5 -l 4000000 "$BAR_A"
	expect 8 eval 'in_use | cut -d" " -f1'
	kill_and_wait -9 "$pid"
	all_released
	note "8 MRs of a killed process are released; in use now: $(in_use)"
}

# The whole BAR can be allocated again.
test_ranges_are_free_again() {
	"$RDMA" reg -m $((64 << 20)) "$BAR_A" | grep -x 'registration: ok'
}

# The adapter writes no more: it has moved other bytes since, and those of the BAR are the same.
test_sigkill_while_writing() {
	local pid before
	launch forever "$BAR_A"
	kill_and_wait -9 "$pid"
	all_released
	before=$(sum)
	no_key_reaches "$BDF_A"
	"$RDMA" write "$BAR_B"
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the end of the process"
}

test_sigkill_many_times() {
	local i pid
	for ((i = 1; i <= ${ROUNDS:-10}; i++)); do
		start hold hold -n 3 "$BAR_A"
		# At another point each time.
		sleep "0.$((i * 7 % 10))"
		kill_and_wait -9 "$pid"
	done
	eventually balanced
}
