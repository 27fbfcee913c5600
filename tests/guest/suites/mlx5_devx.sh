# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # pid is of tests/guest/adapter.sh
#
# Control objects of the stock mlx5 driver in a BAR: DEVX umems, and CQs and QPs whose rings
# and doorbell records the umem backend provides, with traffic.

. ./steps.sh
. ./adapter.sh

# Without invalidation: the driver does not give up memory of queues.
CLIENT=$MODS/external/tests/symbols/replica.ko
MEMORY=/dev/replica

# io_peer_mem, which requires invalidation, is not loaded: another client has BAR A.
setup() {
	load_stack
	load_core
}
load_client() {
	! loaded replica || unload_client
	insmod "$CLIENT" "bdf=$BDF_A" invalidates=0
	eventually test -c $MEMORY
}
unload_client() {
	eventually unused
	rmmod replica
	eventually mlx5_nothing_left
	no_key_reaches "$BDF_A"
}
unused() { balanced replica; }

# kept ACTION: queues or a umem that stay; the pid of the process is in $pid.
kept() {
	: >/tmp/kept
	python3 mlx5_queue.py "$DEV" "$(gid_index)" "$1" -k -n 3 $MEMORY >/tmp/kept 2>&1 &
	pid=$!
	wait_line /tmp/kept '^(3 rounds|umem: ok)'
}

# in_bar: of all queues that applications have, the adapter has rings and doorbell records in
# BAR A. Prints how many queues that are.
in_bar() {
	local line n=0
	while read -r line; do
		[ "$line" != ok ] || continue
		[[ $line = *" in bar-a+0x"*" bar-a+0x"* ]] || return 1
		n=$((n + 1))
	done < <(ask_host connectx queues)
	echo $n
}

# 100 messages and their answers, more than a ring has entries.
test_queues() {
	load_client
	queues verbs -n 100 $MEMORY | grep '^100 rounds'
	eventually unused
	eventually mlx5_nothing_left
	kept verbs
	ask_host connectx queues
	expect 4 in_bar
	# The check at the end of each suite sees them.
	must_fail mlx5_nothing_left | grep "still has"
	must_fail no_key_reaches "$BDF_A" | grep " reaches "
	# As after a crash of the application.
	kill_and_wait -9 "$pid"
	unload_client
}

test_umem() {
	local range
	load_client
	for range in "0 4096" "100 5000" "4095 2" "0 65536" "65535 1"; do
		# shellcheck disable=SC2086 # two numbers
		set -- $range
		expect "umem: ok" queues umem -o "$1" -l "$2" $MEMORY
	done
	unload_client
	expect "umem: ok" queues umem -l 65536 host
}

# The driver releases the umems of a device that is removed.
test_device_is_removed() {
	load_client
	kept umem
	remove_device
	eventually unused
	kill_and_wait -9 "$pid"
	add_device
	queues verbs -n 100 $MEMORY | grep '^100 rounds'
	unload_client
}

# A process is killed, and the adapter has not confirmed yet that a umem is destroyed.
test_killed_before_a_command_is_complete() {
	load_client
	kept umem
	# DESTROY_UMEM
	hold_command 0xa0a
	kill -9 "$pid"
	eventually command_is_held
	nap 1
	must_fail unused
	must_fail gone "$pid"
	release_commands
	eventually gone "$pid"
	unload_client
}
