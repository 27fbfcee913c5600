# SPDX-License-Identifier: GPL-2.0
#
# Keys that refer to MRs of device memory (mr_keys.py), on the stock mlx5 driver: indirect keys of an
# application, memory windows, MRs of all addresses. None may survive the revocation of an MR below. And
# MRs that other processes than the one that registers have.

. ./steps.sh

# keys ACTION [MEMORY]: one that needs nothing of this suite; MEMORY is in the place of the first BAR.
keys() {
	connectx_refuses 'request refused: mkey'
	connectx_refuses 'fails with syndrome 0x13'
	connectx_refuses 'page fault * cannot be resolved'
	timeout 200 python3 mr_keys.py "$DEV" "$(gid_index)" "$1" "${2:-$BAR_A}" "$BAR_B"
}
# keys_until ACTION LINE: until it prints the line; tell lets it go on.
keys_until() {
	rm -f /tmp/keys.in
	mkfifo /tmp/keys.in
	: >/tmp/keys
	keys "$1" <>/tmp/keys.in >/tmp/keys 2>&1 &
	pid=$!
	wait_line /tmp/keys "^$2"
}
tell() {
	echo >/tmp/keys.in
	ended "$pid" || { cat /tmp/keys; false; }
	cat /tmp/keys
	grep -qx ok /tmp/keys
	eventually balanced
}

test_lists() { keys lists; eventually balanced; }
test_children_go_first() { keys children; eventually balanced; }
test_forks() { keys forked; eventually balanced; }
test_three_mrs_at_one_address() { keys stacked; eventually balanced; }
# The driver has no MR of a client then.
test_mr_of_all_addresses() { denied_without_the_device implicit "0 0 0"; }
# The process that has registered the MR does not have it any more.
test_mr_of_another_process() { denied_without_the_device another_process "2 258 1056768" alone; }
test_mr_of_the_program_before() { denied_without_the_device another_program "2 258 1056768"; }

# denied_without_the_device ACTION IN-USE [LINE]: it has so many MRs, pages and bytes of BARs when a device
# goes, after it has printed the line as well.
denied_without_the_device() {
	local pid
	keys_until "$1" running
	wait_line /tmp/keys "^${3:-running}"
	expect "$2" in_use
	unbind_in_time "$BDF_A"
	tell
	works_again "$BDF_A"
}

# A device goes while an application writes by all keys above its MR.
test_revocation_reaches_every_key() {
	local pid sum
	keys_until writer running
	unbind_in_time "$BDF_A"
	sum=$(host_sum a)
	wait_line /tmp/keys '^all denied'
	tell
	[ "$(host_sum a)" = "$sum" ] || fail "bytes behind the BAR change after the unbind"
	expect 5 grep -c 'denied after' /tmp/keys
	works_again "$BDF_A"
}

# The client itself takes its memory back, and the device stays.
test_invalidation_reaches_every_key() {
	insmod "$MODS/external/tests/bench/bench_memory.ko" entries=17
	eventually test -c /dev/bench_memory
	keys client /dev/bench_memory | tee /tmp/keys
	expect 5 grep -c 'denied after' /tmp/keys
	eventually balanced bench_memory
	rmmod bench_memory
}

# The adapter has translated the addresses of a packet when the device goes, and not written its bytes.
# Until it has, the memory is not free for others. Then no byte comes, through a list of MRs either.
packet_is_held() { ask_host connectx held-packet; }
revocation_waits() { ask_host connectx fenced; }
test_revocation_waits_for_a_translated_packet() {
	local pid sum unbind
	launch forever -m $((8 << 20)) "$BAR_A"
	trap 'ask_host connectx release-packets' EXIT
	ask_host connectx hold-packet 1
	eventually packet_is_held
	sum=$(host_sum a)
	unbind "$BDF_A" &
	unbind=$!
	eventually revocation_waits
	nap 1
	must_fail gone "$unbind"
	[ "$(host_sum a)" = "$sum" ] || fail "a packet is written that is held"
	ask_host connectx release-packets
	ended "$unbind"
	no_key_reaches "$BDF_A"
	sum=$(host_sum a)
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	[ "$(host_sum a)" = "$sum" ] || fail "bytes behind the BAR change after the unbind"
	eventually balanced
	works_again "$BDF_A"
}

# The same for a list that is made after the re-registration of an MR.
test_revocation_after_a_reregistration() {
	local pid
	keys_until reregistered running
	unbind_in_time "$BDF_A"
	tell
	works_again "$BDF_A"
}
