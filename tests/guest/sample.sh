# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# Shared by the suites of the two sample clients, whose devices map a megabyte and which
# invalidate it on a write to debugfs. The suites set CLIENT, the name of the client,
# MODULE, its file, and READ_ONLY, the result of an MR for reading on a read-only mapping,
# before they source this, and list their tests in TESTS.

. ./steps.sh

CHAIN=yes

SAMPLE=/dev/$CLIENT
INVALIDATE=/sys/kernel/debug/$CLIENT/invalidate

sample() { value_of "$PEERS/$CLIENT/$1"; }
sample_balanced() { balanced "$CLIENT"; }
invalidate() { timeout 60 bash -c "echo 1 >$INVALIDATE"; }
references() { value_of "/sys/module/$CLIENT/refcnt"; }

setup() {
	load_stack
	load_core
}

test_load() {
	insmod "$MODULE"
	eventually test -c "$SAMPLE"
	expect "$CLIENT" ls "$PEERS"
	expect 1.0 sample version
	refuses 'is in use' rmmod ib_peer_mem
	sample_balanced
}

test_write_and_read_back() {
	"$RDMA" write -o 100 -l 50000 "$SAMPLE"
	"$RDMA" write "$SAMPLE"
	expect 2 sample num_alloc_mrs
	expect $(($(pages 100 50000) + $(pages 0 $((1 << 20))))) sample num_dereg_pages
	expect 0 sample num_free_callbacks
	sample_balanced
}

test_atomics() { "$RDMA" atomic -o 8 -l 4096 "$SAMPLE"; }

test_memory_that_it_rejects() {
	local before
	before=$(sample num_alloc_mrs)
	"$RDMA" write host
	expect "registration: EFAULT" "$RDMA" reg -m 65536 -l 65537 "$SAMPLE"
	expect "registration: EFAULT" "$RDMA" reg -R -a lw "$SAMPLE"
	refuses 'No such device or address' "$RDMA" reg -m $((2 << 20)) "$SAMPLE"
	expect "$before" sample num_alloc_mrs
	expect "registration: $READ_ONLY" "$RDMA" reg -R -a r "$SAMPLE"
	expect "registration: ok" "$RDMA" reg -a r "$SAMPLE"
	sample_balanced
}

test_invalidate_without_regions() {
	invalidate
	expect 0 sample num_free_callbacks
}

test_invalidated_while_held() {
	local pid
	launch hold -n 3 -o 100 -l 20000 "$SAMPLE"
	expect "3 $((3 * $(pages 100 20000))) 60000" in_use "$CLIENT"
	invalidate
	# The invalidation is complete when the write returns.
	sample_balanced
	expect 3 sample num_free_callbacks
	# The process keeps the revoked MRs.
	kill -0 "$pid"
	kill_and_wait "$pid"
	eventually nothing_registered
	sample_balanced
}

test_invalidated_under_a_writer() {
	local pid
	launch forever -t 1 "$SAMPLE"
	invalidate
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer: $(grep 'remote access' /tmp/forever)"
	expect 4 sample num_free_callbacks
	sample_balanced
}

# Registrations and deregistrations, and invalidations by two tasks, at the same time.
test_invalidated_while_registering() {
	local i before times=0 end
	before=$(sample num_free_callbacks)
	touch /tmp/more
	for i in 1 2 3; do
		while [ -e /tmp/more ]; do "$RDMA" reg "$SAMPLE"; done >"/tmp/reg$i" 2>&1 &
	done
	while [ -e /tmp/more ]; do echo 1 >"$INVALIDATE"; nap 0.07; done &
	# A fixed time, not a number of rounds: an emulated debug kernel is slow.
	end=$((SECONDS + 8))
	# Some must succeed between two of them.
	while [ $SECONDS -lt $end ] || { [ $SECONDS -lt $((end + 60)) ] && [ "$(made)" -lt 3 ]; }; do
		echo 1 >"$INVALIDATE"
		times=$((times + 1))
		nap 0.05
	done
	rm /tmp/more
	wait
	eventually nothing_registered
	sample_balanced
	grep -h . /tmp/reg[123] | sort | uniq -c
	# Registrations during an invalidation fail with ENODEV, all others succeed.
	must_fail grep -hvE '^registration: (ok|ENODEV)$' /tmp/reg1 /tmp/reg2 /tmp/reg3
	[ "$(made)" -ge 3 ]
	note "$(made) MRs made during more than $times invalidations, $(($(sample num_free_callbacks) - before)) of them revoked"
}

made() { cat /tmp/reg[123] | grep -c ok || true; }

test_again() { "$RDMA" write "$SAMPLE"; }

# An open file and a mapping pin the module; their release unpins it.
test_mapping_holds_the_module() {
	local pid
	expect 0 references
	launch hold "$SAMPLE"
	refuses 'is in use' rmmod "$CLIENT"
	kill_and_wait "$pid"
	eventually sample_balanced
	expect 0 references
}
