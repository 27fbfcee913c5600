# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid is of tests/guest/steps.sh
#
# The stock mlx5 driver and its adapter are removed, and come back, while MRs of device memory
# exist.

. ./steps.sh

test_unbind_core_under_a_writer() {
	local pid
	launch forever -m $((8 << 20)) "$BAR_A"
	remove_device
	balanced
	ends "$pid"
	must_fail grep -i 'success' /tmp/forever
	add_device
	works_again
}

# As a hot-unplug is for the driver: the function goes from the bus.
test_sysfs_remove_and_rescan() {
	local pid bdf
	bdf=$(mlx5_bdf)
	launch forever "$BAR_A"
	echo 1 >"/sys/bus/pci/devices/$bdf/remove"
	[ ! -e "/sys/bus/pci/devices/$bdf" ]
	balanced
	ends "$pid"
	echo 1 >/sys/bus/pci/rescan
	comes_back
}

# mlx5_ib can be removed while a process has a device of it open.
test_modules_removed_with_mrs() {
	local pid
	launch hold -n 2 "$BAR_A"
	rmmod mlx5_ib
	balanced
	kill -0 "$pid"
	ends "$pid"
	rmmod mlx5_core
	comes_back
}

# All reads give ones, nothing is answered any more: a surprise removal.
test_dead_adapter_with_mrs() {
	local pid bdf
	bdf=$(mlx5_bdf)
	launch hold -n 5 "$BAR_A"
	ask_host connectx dead
	eventually noticed
	echo 1 >"/sys/bus/pci/devices/$bdf/remove"
	eventually balanced
	replace "$pid"
}

# The adapter forgets everything, and the driver is not asked: it has no reset_prepare, and
# finds out by itself.
test_function_level_reset() {
	local pid bdf
	bdf=$(mlx5_bdf)
	recover_any_time
	# mlx5 takes the reset for a fatal error, and the core does not know that it has ended all access.
	log_may 'may still access [0-9]+ bytes'
	launch forever "$BAR_A"
	grep flr "/sys/bus/pci/devices/$bdf/reset_method"
	echo 1 >"/sys/bus/pci/devices/$bdf/reset"
	eventually recovered
	balanced
	ends "$pid"
	must_fail grep -i success /tmp/forever
	comes_back
}

# The memory goes while the adapter is dead: nothing confirms the end of its access, and
# nothing may wait for that for ever.
test_revoke_with_a_dead_adapter() {
	local pid bdf
	bdf=$(mlx5_bdf)
	launch hold -n 2 "$BAR_A"
	ask_host connectx dead
	unbind_in_time "$BDF_A"
	eventually balanced
	eventually noticed
	echo 1 >"/sys/bus/pci/devices/$bdf/remove"
	replace "$pid" "$BDF_A"
}

# Processes of several users map, export, name and register, within a quota that each user reaches, while
# the BAR is unbound, and then the adapter is removed; each one ends. peer.rounds=N, as in make soak: 100
# processes of 20 users. With the priority of the others, a task that unbinds would run only every 100th time.
test_many_users() {
	local pid count=(20 4)
	[ -z "$ROUNDS" ] || count=(100 20)
	echo $((1 << 20)) >/sys/module/io_peer_mem/parameters/quota
	nice -n 19 python3 users.py "$DEV" "$BAR_A" "${count[@]}" >/tmp/users 2>&1 &
	pid=$!
	wait_line /tmp/users '^running'
	unbind_in_time "$BDF_A"
	rebind "$BDF_A"
	nap 1
	remove_device
	kill "$pid"
	ended "$pid" || { cat /tmp/users; false; }
	echo >/sys/module/io_peer_mem/parameters/quota
	note "$(tail -n 1 /tmp/users)"
	must_fail grep -q '^0 operations' /tmp/users
	all_released
	add_device
	works_again
}
