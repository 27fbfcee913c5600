# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The client in C that others copy from, built out of the tree against what is
# installed; and the two symbols by which clients find us.

. ./steps.sh

SAMPLE=/dev/peer_client_sample
EXTERNAL=$MODS/external
TAKE_AWAY=/sys/kernel/debug/peer_client_sample/take_away

sample() { cat "$PEERS/peer_client_sample/$1"; }
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

setup() {
	load_stack
	load_core
}

test_symvers() {
	local f
	for f in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
		grep -E "^0x[0-9a-f]+	$f	ib_peer_mem	EXPORT_SYMBOL_GPL	*$" \
			"$MODS/installed/usr/src/ib-peer-mem/Module.symvers"
	done
}

test_kallsyms() {
	local f
	for f in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
		grep -E "^[0-9a-f]+ [tT] $f	\[ib_peer_mem\]$" /proc/kallsyms
	done
}

test_symbol_get() {
	insmod "$EXTERNAL/tests/symbols/symbol_get_test.ko"
	log_since test | grep 'symbol_get_test: found both'
	# Who has found a symbol holds the module that it is in.
	must_fail rmmod ib_peer_mem
	rmmod symbol_get_test
	rmmod ib_peer_mem
	must_fail insmod "$EXTERNAL/tests/symbols/symbol_get_test.ko"
	load_core
}

test_load() {
	insmod "$EXTERNAL/samples/peer_client/peer_client_sample.ko"
	eventually test -c "$SAMPLE"
	expect peer_client_sample ls "$PEERS"
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
	kill -0 "$pid"
	# The keys of a dead MR are still the process's.
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

# Registrations, deregistrations and invalidations all at once.
test_taken_away_while_registering() {
	local i before times=0 end
	before=$(sample num_free_callbacks)
	touch /tmp/more
	for i in 1 2 3; do
		while [ -e /tmp/more ]; do "$RDMA" reg "$SAMPLE"; done >"/tmp/reg$i" 2>&1 &
	done
	# For a time, not a number of times: an emulated debug kernel is slow.
	end=$((SECONDS + 8))
	while [ $SECONDS -lt $end ]; do
		echo 1 >$TAKE_AWAY
		times=$((times + 1))
		sleep 0.05
	done
	rm /tmp/more
	wait
	eventually nothing_registered
	sample_balanced
	grep -h . /tmp/reg[123] | sort | uniq -c
	# What came while the memory went is refused, all else went well.
	must_fail grep -hvE '^registration: (ok|ENODEV)$' /tmp/reg1 /tmp/reg2 /tmp/reg3
	note "$(cat /tmp/reg[123] | grep -c ok) MRs made while the memory was taken away $times times, $(($(sample num_free_callbacks) - before)) of them hit"
}

test_again() { "$RDMA" write "$SAMPLE"; }

test_mapping_holds_the_module() {
	local pid
	start hold hold "$SAMPLE"
	wait_line /tmp/hold '^holding 1'
	must_fail rmmod peer_client_sample
	kill "$pid"
	wait "$pid" || true
	eventually sample_balanced
}

test_unload() {
	rmmod peer_client_sample
	[ ! -e "$PEERS/peer_client_sample" ]
	[ ! -e "$SAMPLE" ]
	# Its memory is gone, its adapter goes on.
	"$RDMA" write host
}
