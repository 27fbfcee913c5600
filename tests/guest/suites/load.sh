# SPDX-License-Identifier: GPL-2.0
#
# Loading and unloading with the stock stack, in every order, on soft RoCE or on the stock mlx5 driver.
# The debug kernel runs the tests that its checks cover; it has no mlx5_ib with soft RoCE.

. ./steps.sh

setup() { load_stack; }

# shellcheck disable=SC2034 # init's
TEST_LIMIT=$((TEST_LIMIT + 20 * ROUNDS))

# not on debug
test_stack_is_stock() {
	if [ "$DEV" = rxe0 ]; then
		stock rxe0 rdma_rxe ib_uverbs ib_core
	else
		stock "$DEV" mlx5_ib mlx5_core ib_uverbs ib_core
	fi
}

test_core() {
	load_core
	[ -d "$PEERS" ]
	note "ib_peer_mem loaded: $(modinfo -F description "$MODS/ib_peer_mem.ko")"
}

test_io() {
	load_bars
	expect io_peer_mem ls "$PEERS"
	# There is no udev here.
	expect "660 root root" stat -c "%a %U %G" "$BAR_A"
	note "io_peer_mem loaded: $BAR_A, $BAR_B"
}

# Applications take a client for memory that can be registered: there is one while io_peer_mem has a
# function.
test_client_with_its_functions() {
	load_bars
	unbind "$BDF_A"
	client_is io_peer_mem
	unbind "$BDF_B"
	soon client_is ""
	bind "$BDF_B"
	client_is io_peer_mem
	"$RDMA" write "$BAR_B"
	unload_io
	# Ids, but no such function.
	load_io 1af4:ffff
	client_is ""
	# One that cannot be bound.
	unload_io
	load_io_with bars=0
	client_is ""
	unload_io
}

test_client_by_parameter() {
	local parameter file
	unload_modules
	load_core
	for parameter in mmio p2pmem; do
		file=$PARAMETERS/$parameter
		insmod "$MODS/io_peer_mem.ko" $parameter=1
		client_is io_peer_mem
		echo 0 >"$file"
		soon client_is ""
		echo 1 >"$file"
		soon client_is io_peer_mem
		echo >"$file"
		soon client_is ""
		rmmod io_peer_mem
	done
}

# binds BDF: binds and unbinds the function until /tmp/stop exists; a line in /tmp/BDF for each time.
binds() {
	: >"/tmp/$1"
	until [ -e /tmp/stop ]; do
		bind "$1"
		unbind "$1"
		echo >>"/tmp/$1"
	done
}
# Two functions come and go at the same time, so that either is the first or the last, while a parameter
# is written.
test_client_under_binds() {
	local a b rounds=${ROUNDS:-20} parameter=$PARAMETERS/p2pmem
	[ "$KIND" != debug ] || rounds=${ROUNDS:-4}
	unload_io
	load_bars
	unbind "$BDF_A"
	unbind "$BDF_B"
	rm -f /tmp/stop
	binds "$BDF_A" &
	a=$!
	binds "$BDF_B" &
	b=$!
	until [ "$(wc -l <"/tmp/$BDF_A")" -ge "$rounds" ] && [ "$(wc -l <"/tmp/$BDF_B")" -ge "$rounds" ]; do
		gone $a && break
		gone $b && break
		echo 1 >"$parameter"
		echo 0 >"$parameter"
		nap 0.02
	done
	: >/tmp/stop
	ended $a
	ended $b
	soon client_is ""
	bind "$BDF_A"
	client_is io_peer_mem
	rebind "$BDF_B"
	"$RDMA" write "$BAR_A"
	note "$(wc -l <"/tmp/$BDF_A") and $(wc -l <"/tmp/$BDF_B") binds of two functions at the same time"
}

# Another client has the name.
test_client_that_cannot_be_registered() {
	unload_io
	load_core
	insmod "$MODS/external/tests/symbols/replica.ko" name=io_peer_mem
	logs 'io_peer_mem: cannot register the peer memory client: ' load_io_with
	[ ! -e "$BAR_A" ]
	[ ! -e "/sys/bus/pci/devices/$BDF_A/driver" ]
	refuses 'Invalid argument' bind "$BDF_A"
	refuses 'Invalid argument' eval "echo 1 >$PARAMETERS/mmio"
	expect "" cat "$PARAMETERS/mmio"
	unload_io
	insmod_refuses 'cannot register the peer memory client: ' "$MODS/io_peer_mem.ko" mmio=1
	rmmod replica
	load_bars
	client_is io_peer_mem
}

# Unloading waits for one Tasks RCU grace period, beside that of ftrace, which removes the hook on
# umems: not for one for each of the devices, and of the hooks. ftrace removes in two parts what is
# hooked in two parts, as where the compiler has inlined one of the functions.
# not on debug
test_unload_waits_once() {
	local parts=1
	load_modules
	[ "$DEV" != rxe0 ] || rdma link add rxe1 type rxe netdev lo
	unload_io
	trace_calls synchronize_rcu_tasks
	! grep -qw '^ib_umem_get_attr_or_va' /sys/kernel/tracing/enabled_functions || parts=2
	rmmod ib_peer_mem
	traced_calls | tee /tmp/calls
	expect $parts grep -c 'synchronize_rcu_tasks <-ftrace' /tmp/calls
	expect $((parts + 1)) grep -c 'synchronize_rcu_tasks <-' /tmp/calls
	[ "$DEV" != rxe0 ] || rdma link delete rxe1
}

# A rename frees the old name.
test_device_is_renamed() {
	local devices=/sys/kernel/debug/ib_peer_mem/devices
	load_modules
	rdma dev set "$DEV" name peer_renamed
	grep '^peer_renamed	' $devices
	rdma dev set peer_renamed name "$DEV"
	grep "^$DEV	" $devices
}

# registers LABEL: registers and deregisters host memory until /tmp/stop exists; the device may go
# meanwhile. Two lines in /tmp/LABEL for some dozen MRs.
registers() {
	: >"/tmp/$1"
	until [ -e /tmp/stop ]; do
		/mnt/programs/bench_mr "$DEV" "$1" host 4096 4096 >>"/tmp/$1" 2>>"/tmp/$1.err" || nap 0.05
	done
}

# Two tasks register and deregister host memory while the operations of their device are replaced,
# restored, and freed with the modules, or the device itself goes.
test_unload_under_registrations() {
	local i pids=() lines rounds=${ROUNDS:-2}
	[ "$KIND" != debug ] || rounds=${ROUNDS:-1}
	unload_modules
	rm -f /tmp/stop /tmp/[ab].err
	for i in a b; do
		registers $i &
		pids+=($!)
	done
	for ((i = 0; i < rounds; i++)); do
		lines=$(cat /tmp/a /tmp/b | wc -l)
		load_modules
		more_registered "$lines"
		if [ $((i % 2)) = 0 ]; then
			remove_device
			add_device
		fi
		"$RDMA" write -o 100 -l 5000 "$BAR_A"
		unload_modules
	done
	more_registered "$(cat /tmp/a /tmp/b | wc -l)"
	: >/tmp/stop
	for i in "${pids[@]}"; do ended "$i"; done
	# Only the device may have been missing, or gone.
	must_fail grep -hvE "^bench_mr: (no |)RDMA device $DEV|^bench_mr: ibv_.*: Input/output error\$|^  " /tmp/[ab].err
	nothing_registered
	load_modules
}
# more_registered LINES: waits until the tasks have registered more.
more_registered() { eventually eval "[ \$(cat /tmp/a /tmp/b | wc -l) -gt $(($1 + 4)) ]"; }

test_load_many_times() {
	local rounds=${ROUNDS:-10}
	[ "$KIND" != debug ] || rounds=${ROUNDS:-3}
	while ((rounds-- > 0)); do
		load_modules
		unload_modules
	done
}
