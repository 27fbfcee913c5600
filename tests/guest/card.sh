# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # for the suites; of the kit
#
# The report card of a client: what Documentation/client-api.rst asks of one, point by point. The suites
# set KIT, the directory with the file kit (client-api.rst), before they source this.

. ./steps.sh

CHAIN=yes
CLIENT='' SIZE=$((1 << 20)) INVALIDATE='' RESTORE=true LOAD='' UNLOAD=''
. "$KIT/kit"
CLIENT=${CLIENT:-$MODULE}
FILE=$(find "$KIT" "$MODS" -name "$MODULE.ko" -print -quit)
: "${LOAD:=insmod "$FILE"}" "${UNLOAD:=rmmod $MODULE}"

TESTS="test_loads test_writes_and_reads test_offsets_and_lengths test_atomics test_other_memory
	test_read_only_mapping test_two_clients test_invalidates_nothing test_invalidates_idle_mrs
	test_invalidates_under_a_writer test_invalidates_while_registering test_killed test_forked
	test_no_memory test_mapping_holds_the_module test_unloads_under_a_writer test_loads_again"

client() { value_of "$PEERS/$CLIENT/$1"; }
client_balanced() { balanced "$CLIENT"; }
client_idle() {
	eventually client_balanced
	eventually nothing_registered
}
revoke() { timeout 60 bash -ec "$INVALIDATE"; }
restore() {
	eval "$RESTORE"
	eventually test -c "$MEMORY"
}
must_invalidate() { [ -n "$INVALIDATE" ] || skip "the kit does not say how the client invalidates"; }
references() { value_of "/sys/module/$MODULE/refcnt"; }
load_client() {
	eval "$LOAD"
	eventually test -c "$MEMORY"
}

setup() {
	load_stack
	load_core
}

test_loads() {
	load_client
	[ -d "$PEERS/$CLIENT" ]
	note "client $CLIENT, version $(client version)"
	refuses 'is in use' rmmod ib_peer_mem
	client_balanced
}

test_writes_and_reads() {
	"$RDMA" write -m "$SIZE" -o 100 -l 50000 "$MEMORY"
	"$RDMA" write -m "$SIZE" "$MEMORY"
	expect 2 client num_alloc_mrs
	expect $(($(pages 100 50000) + $(pages 0 "$SIZE"))) client num_dereg_pages
	expect 0 client num_free_callbacks
	client_balanced
	expect 0 references
}

# The table begins where the range does, rounded down to the page size, and reaches its end.
test_offsets_and_lengths() {
	local range
	for range in "0 1" "4095 2" "1 4096" "$((SIZE / 2 + 7)) 20000" "$((SIZE - 1)) 1" "0 $SIZE"; do
		"$RDMA" write -m "$SIZE" -o "${range% *}" -l "${range#* }" "$MEMORY" || fail "offset, length: $range"
	done
	client_balanced
}

test_atomics() { "$RDMA" atomic -m "$SIZE" -o 8 -l 4096 "$MEMORY"; }

# Host memory, and a range that goes on behind a mapping.
test_other_memory() {
	"$RDMA" write host
	expect "registration: EFAULT" "$RDMA" reg -m 65536 -l 65537 "$MEMORY"
	client_balanced
}

# Whatever "force" is. A client may serve an MR for reading alone.
test_read_only_mapping() {
	expect "registration: EFAULT" "$RDMA" reg -m "$SIZE" -R -a lw "$MEMORY"
	"$RDMA" reg -m "$SIZE" -R -a r "$MEMORY" | tee /tmp/read_only
	grep -E '^registration: (ok|EFAULT)$' /tmp/read_only
	expect "registration: ok" "$RDMA" reg -m "$SIZE" -a r "$MEMORY"
	client_balanced
}

test_two_clients() {
	local other=$MODS/external/tests/symbols/replica_by_symbol.ko
	insmod "$other" name=other
	"$RDMA" write -m "$SIZE" "$MEMORY"
	rmmod replica_by_symbol
	"$RDMA" write -m "$SIZE" "$MEMORY"
	client_balanced
}

test_invalidates_nothing() {
	local before
	must_invalidate
	before=$(client num_free_callbacks)
	revoke
	restore
	expect "$before" client num_free_callbacks
}

test_invalidates_idle_mrs() {
	local pid
	must_invalidate
	launch hold -m "$SIZE" -n 3 -o 100 -l 20000 "$MEMORY"
	expect "3 $((3 * $(pages 100 20000))) 60000" in_use "$CLIENT"
	revoke
	# The invalidation is complete when the client's function returns.
	client_balanced
	[ "$(client num_free_callbacks)" -ge 3 ]
	# The process keeps the revoked MRs.
	kill -0 "$pid"
	kill_and_wait "$pid"
	restore
	client_idle
}

test_invalidates_under_a_writer() {
	local pid
	must_invalidate
	launch forever -m "$SIZE" -t 1 "$MEMORY"
	revoke
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer: $(grep 'remote access' /tmp/forever)"
	restore
	client_idle
}

# Registrations and deregistrations, and invalidations, at the same time.
test_invalidates_while_registering() {
	local i before times=0 end
	must_invalidate
	before=$(client num_free_callbacks)
	touch /tmp/more
	for i in 1 2 3; do
		while [ -e /tmp/more ]; do "$RDMA" reg -m "$SIZE" "$MEMORY" || true; done >"/tmp/reg$i" 2>&1 &
	done
	# A fixed time, not a number of rounds: an emulated debug kernel is slow.
	end=$((SECONDS + 8))
	# Some must succeed between two of them.
	while [ $SECONDS -lt $end ] || { [ $SECONDS -lt $((end + 60)) ] && [ "$(made)" -lt 3 ]; }; do
		revoke
		restore
		times=$((times + 1))
		nap 0.05
	done
	rm /tmp/more
	wait
	client_idle
	grep -h . /tmp/reg[123] | sort | uniq -c
	# Those during an invalidation fail with ENODEV, or find no memory to map.
	must_fail grep -hvE '^registration: (ok|ENODEV)$|: No such file|is the function bound' /tmp/reg1 /tmp/reg2 /tmp/reg3
	[ "$(made)" -ge 3 ]
	note "$(made) MRs made during $times invalidations, $(($(client num_free_callbacks) - before)) of them revoked"
}
made() { cat /tmp/reg[123] | grep -c ok || true; }

test_killed() {
	local pid
	launch hold -m "$SIZE" -n 5 -o 3 -l 300000 "$MEMORY"
	kill_and_wait -9 "$pid"
	client_idle
	launch forever -m "$SIZE" "$MEMORY"
	kill_and_wait -9 "$pid"
	client_idle
	expect 0 references
}

# The child has the mapping of its parent, and may have an MR of it or not; the parent's MR still works.
test_forked() {
	"$RDMA" fork -m "$SIZE" "$MEMORY" | tee /tmp/forked
	grep -E '^registration of the child: ' /tmp/forked
	grep -x 'the parent writes' /tmp/forked
	client_idle
}

# Each allocation of a registration fails in turn.
test_no_memory() {
	local fail=/sys/kernel/debug/failslab
	[ -d $fail ] || skip "this kernel has no failslab"
	# Of the kernel itself.
	log_may "vmalloc error: .*allocation failed"
	echo N >$fail/ignore-gfp-wait
	echo 0 >$fail/verbose
	"$RDMA" starve -m "$SIZE" "$MEMORY" | tee /tmp/starved
	note "$(tail -n 1 /tmp/starved)"
	echo Y >$fail/ignore-gfp-wait
	client_idle
	expect 0 references
	"$RDMA" write -m "$SIZE" "$MEMORY"
}

# An open file and a mapping pin the module; their release unpins it.
test_mapping_holds_the_module() {
	local pid
	expect 0 references
	launch hold -m "$SIZE" "$MEMORY"
	refuses 'is in use' rmmod "$MODULE"
	kill_and_wait "$pid"
	client_idle
	expect 0 references
}

# The process has unmapped the memory of its MR: the module can be removed, and accesses to the MR fail.
test_unloads_under_a_writer() {
	local pid
	launch forever -m "$SIZE" -u -t 2 "$MEMORY"
	expect 0 references
	timeout 60 bash -ec "$UNLOAD"
	[ ! -e "$PEERS/$CLIENT" ]
	[ ! -e "$MEMORY" ]
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	grep -x deregistered /tmp/forever
	note "the writer after rmmod: $(grep 'remote access' /tmp/forever)"
	eventually nothing_registered
	# The adapter still works.
	"$RDMA" write host
}

test_loads_again() {
	load_client
	# The counters start at 0 with each registration.
	expect 0 client num_alloc_mrs
	"$RDMA" write -m "$SIZE" "$MEMORY"
	client_balanced
	eval "$UNLOAD"
}
