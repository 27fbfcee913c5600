# SPDX-License-Identifier: GPL-2.0
#
# RDMA to and from a BAR. The debug kernel runs a few of the tests: it is slow, and its
# checks do not change the bytes.

. ./steps.sh

# The MR starts and ends inside pages; the host looks at the file behind the BAR.
test_write_and_read_back() {
	"$RDMA" write -o 12345 -l 654321 -s 42 "$BAR_A" | tee /tmp/write
	note "$(cat /tmp/write)"
}

# not on debug
test_host_sees_the_bytes() {
	"$RDMA" write -o 4097 -l 700003 -s 43 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote | tee /tmp/host
	note "host: $(head -n 1 /tmp/host)"
}

# The check on the host fails for wrong bytes.
# not on debug
test_host_sees_wrong_bytes() {
	"$RDMA" write -l 8192 -s 44 "$BAR_A" | sed 's/seed=44/seed=45/' | tee /tmp/write
	must_fail host_has a /tmp/write wrote
}

test_atomics() {
	"$RDMA" atomic -o 5003 -l 4096 "$BAR_A" | tee /tmp/atomic
	note "$(grep -c . /tmp/atomic) values of fetch-and-add and compare-and-swap are right"
}

test_bar_to_bar() {
	"$RDMA" copy -o 321 -l 500000 -s 46 "$BAR_A" "$BAR_B" | tee /tmp/copy
	host_has a /tmp/copy from
	host_has b /tmp/copy to | tee /tmp/host
	note "host, second BAR: $(head -n 1 /tmp/host)"
}

# One MR for the whole BAR; the range is free afterwards.
test_whole_bar() {
	"$RDMA" reg -m $((32 << 20)) "$BAR_B" | grep -x 'registration: ok'
	# The debug kernel moves a megabyte in a second.
	[ "$KIND" != debug ] || return 0
	"$RDMA" write -m $((32 << 20)) -o 3 -l $(((32 << 20) - 7)) -s 49 "$BAR_B" | tee /tmp/write
	"$RDMA" reg -m $((32 << 20)) "$BAR_B" | grep -x 'registration: ok'
}

# not on debug
test_perftest_write() { side_by_side write; }
# not on debug
test_perftest_read() { side_by_side read; }

# Two processes, each with a range of the BAR.
# not on debug
test_perftest_both_ends_in_the_bar() {
	perftest write "$BAR_A" 65536 100 both
	perftest read "$BAR_A" 65536 100 both
}

# The sample that applications copy from; peer_rdma builds on the same files.
# not on debug
test_sample() {
	local device=(-d "$DEV" -x "$(gid_index)")
	/mnt/programs/peer_verbs write "${device[@]}" -o 4098 -l 70001 -s 50 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
	/mnt/programs/peer_verbs atomic "${device[@]}" "$BAR_A"
	refuses usage: /mnt/programs/peer_verbs reg "${device[@]}" "$BAR_A"
	refuses 'invalid option' /mnt/programs/peer_verbs write "${device[@]}" -R "$BAR_A"
	refuses 'must lie in the mapping' /mnt/programs/peer_verbs write "${device[@]}" -m 4096 -l 4097 "$BAR_A"
}
