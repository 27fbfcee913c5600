# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Ten minutes of the metrics that iopm prints, with jobs and an unbind under MRs, for
# scripts/dashboard. The file metrics of the results has the samples, each with its time.

. ./steps.sh

# shellcheck disable=SC2034 # init's
TEST_LIMIT=1200
IOPM=/mnt/programs/iopm

setup() {
	load_stack
	load_bars
	: >"$OUT/metrics"
}

# sample COUNT: as the timer of the package does it, but each 15 s.
sample() {
	local n
	for ((n = 0; n < $1; n++)); do
		"$IOPM" metrics | sed "/^#/d; s/\$/ $(date +%s)/" >>"$OUT/metrics"
		nap 15
	done
}

# job NAME MRS SIZE BAR
job() { start "$1" hold -n "$2" -m "$3" "$4"; }

test_ten_minutes() {
	local first second pid
	sample 4
	job first 8 $((2 << 20)) "$BAR_A"
	first=$pid
	sample 8
	job second 24 $((1 << 20)) "$BAR_B"
	second=$pid
	sample 6
	kill_and_wait "$first"
	sample 8
	unbind "$BDF_B"
	sample 8
	kill_and_wait "$second"
	sample 6
	all_released
}
