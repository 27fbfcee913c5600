# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# What the suites of the clients that others copy from share: both give out a megabyte,
# and take it away when told to. Sourced by those suites, which have set CLIENT, the name
# of the client, and MODULE, its file, and say in TESTS which of the tests are theirs.

. ./steps.sh

SAMPLE=/dev/$CLIENT
TAKE_AWAY=/sys/kernel/debug/$CLIENT/take_away

sample() {
	local value
	read -r value <"$PEERS/$CLIENT/$1"
	echo "$value"
}
# What is registered now: MRs and pages.
sample_in_use() {
	echo "$(($(sample num_alloc_mrs) - $(sample num_dealloc_mrs)))" \
		"$(($(sample num_reg_pages) - $(sample num_dereg_pages)))"
}
sample_balanced() {
	[ "$(sample_in_use)" = "0 0" ]
	[ "$(sample num_reg_bytes)" = "$(sample num_dereg_bytes)" ]
}
take_away() { timeout 60 bash -c "echo 1 >$TAKE_AWAY"; }
references() {
	local value
	read -r value <"/sys/module/$CLIENT/refcnt"
	echo "$value"
}

setup() {
	load_stack
	load_core
}

test_load() {
	insmod "$MODULE"
	eventually test -c "$SAMPLE"
	expect "$CLIENT" ls "$PEERS"
	expect 1.0 sample version
	must_fail rmmod ib_peer_mem
	sample_balanced
}

test_write_and_read_back() {
	"$RDMA" write -o 100 -l 50000 "$SAMPLE"
	"$RDMA" write "$SAMPLE"
	expect 2 sample num_alloc_mrs
	expect $((13 + 256)) sample num_dereg_pages
	expect 0 sample num_free_callbacks
	sample_balanced
}

test_atomics() { "$RDMA" atomic -o 8 -l 4096 "$SAMPLE"; }

test_what_is_not_its_memory() {
	local before
	before=$(sample num_alloc_mrs)
	"$RDMA" write host
	expect "registration: EFAULT" "$RDMA" reg -m 65536 -l 65537 "$SAMPLE"
	expect "registration: EFAULT" "$RDMA" reg -R -a lw "$SAMPLE"
	must_fail "$RDMA" reg -m $((2 << 20)) "$SAMPLE"
	expect "$before" sample num_alloc_mrs
	expect "registration: ok" "$RDMA" reg -R -a r "$SAMPLE"
	sample_balanced
}

test_nothing_to_take_away() {
	take_away
	expect 0 sample num_free_callbacks
}

test_taken_away_while_held() {
	local pid
	start hold hold -n 3 -o 100 -l 20000 "$SAMPLE"
	wait_line /tmp/hold '^holding 3'
	expect "3 15" sample_in_use
	take_away
	# All of it happens before the write returns.
	sample_balanced
	expect 3 sample num_free_callbacks
	# The keys of a dead MR are still the process's.
	kill -0 "$pid"
	kill "$pid"
	wait "$pid" || true
	eventually nothing_registered
	sample_balanced
}

test_taken_away_under_a_writer() {
	local pid
	start forever forever -t 1 "$SAMPLE"
	wait_line /tmp/forever '^running'
	take_away
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer: $(grep 'remote access' /tmp/forever)"
	expect 4 sample num_free_callbacks
	sample_balanced
}

# Registrations, deregistrations and invalidations by two at once.
test_taken_away_while_registering() {
	local i before times=0 end
	before=$(sample num_free_callbacks)
	touch /tmp/more
	for i in 1 2 3; do
		while [ -e /tmp/more ]; do "$RDMA" reg "$SAMPLE"; done >"/tmp/reg$i" 2>&1 &
	done
	while [ -e /tmp/more ]; do echo 1 >"$TAKE_AWAY"; nap 0.07; done &
	# For a time, not a number of times: an emulated debug kernel is slow.
	end=$((SECONDS + 8))
	while [ $SECONDS -lt $end ]; do
		echo 1 >"$TAKE_AWAY"
		times=$((times + 1))
		nap 0.05
	done
	rm /tmp/more
	wait
	eventually nothing_registered
	sample_balanced
	grep -h . /tmp/reg[123] | sort | uniq -c
	# What came while the memory went is refused, all else went well.
	must_fail grep -hvE '^registration: (ok|ENODEV)$' /tmp/reg1 /tmp/reg2 /tmp/reg3
	note "$(cat /tmp/reg[123] | grep -c ok) MRs made while the memory was taken away $times times and more, $(($(sample num_free_callbacks) - before)) of them hit"
}

test_again() { "$RDMA" write "$SAMPLE"; }

# Its file, its mappings; and nothing any more once they are gone.
test_mapping_holds_the_module() {
	local pid
	expect 0 references
	start hold hold "$SAMPLE"
	wait_line /tmp/hold '^holding 1'
	must_fail rmmod "$CLIENT"
	kill "$pid"
	wait "$pid" || true
	eventually sample_balanced
	expect 0 references
}
