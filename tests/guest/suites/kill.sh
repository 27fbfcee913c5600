# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Processes that end without a word.

. ./steps.sh

test_sigkill_with_mrs() {
	local pid
	start hold hold -n 8 -m 4194304 -o 5 -l 4000000 "$BAR_A"
	wait_line /tmp/hold '^holding 8'
	expect 8 eval 'in_use | cut -d" " -f1'
	kill -9 "$pid"
	wait "$pid" || true
	eventually balanced
	eventually nothing_registered
	note "8 MRs of a killed process are released; in use now: $(in_use)"
}

# Every byte of the BAR can be had again.
test_ranges_are_free_again() {
	"$RDMA" reg -m $((64 << 20)) "$BAR_A" | grep -x 'registration: ok'
}

test_sigkill_while_writing() {
	local pid
	start forever forever "$BAR_A"
	wait_line /tmp/forever '^running'
	kill -9 "$pid"
	wait "$pid" || true
	eventually balanced
	eventually nothing_registered
}

test_sigkill_ten_times() {
	local i pid
	for i in 1 2 3 4 5 6 7 8 9 10; do
		start hold hold -n 3 "$BAR_A"
		# Not at the same point each time.
		sleep "0.$((i * 7 % 10))"
		kill -9 "$pid"
		wait "$pid" || true
	done
	eventually balanced
}
