# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # for init; pid is of steps.sh
#
# What stops and starts the RDMA stack beside our modules, on the stock mlx5 driver (TOPOLOGY=connectx): the
# commands of openibd, which knows its own modules alone, and iopm stop and start before and after it.

. ./steps.sh

STATE=/run/iopm/stopped
CHAIN=yes

# modprobe has no list with these modules.
setup() {
	load_stack
	{
		printf "install %s /sbin/insmod $MODS/%s.ko \$CMDLINE_OPTS\n" {ib,io}_peer_mem{,}
		echo "install replica /sbin/insmod $MODS/external/tests/symbols/replica.ko pages=16"
	} >/etc/modprobe.d/stack.conf
	modprobe ib_peer_mem order=clients_first
	modprobe io_peer_mem bars=0
	modprobe replica
	# The parameter alone would not bind it.
	"$IOPM" bind --bar 2 "$BDF_A"
}

# As openibd does.
stop_stack() {
	local module
	for module in mlx5_ib rdma_ucm rdma_cm iw_cm ib_cm ib_umad ib_uverbs ib_uverbs_support ib_core; do
		! loaded $module || rmmod $module || return
	done
}
# Everything is as setup has left it, and works.
as_before() {
	client_is $'io_peer_mem\nreplica'
	expect clients_first cat /sys/module/ib_peer_mem/parameters/order
	expect 0 cat /sys/module/io_peer_mem/parameters/bars
	[ ! -e $STATE ]
	"$RDMA" write "$BAR_A"
	"$RDMA" write -m 65536 /dev/replica
}
# stop STATUS ARGUMENTS...: its output is in /tmp/stop.
stop() {
	local want=$1 got=0
	shift
	"$IOPM" stop "$@" >/tmp/stop || got=$?
	cat /tmp/stop
	[ "$got" = "$want" ]
}

test_core_is_in_use() {
	local used=core
	# Already.
	! is_7_0 || used=uverbs
	refuses "Module ib_$used is in use by: .*\bib_peer_mem\b" stop_stack
	must_fail "$IOPM" doctor >/tmp/doctor
	cat /tmp/doctor
	grep 'FAIL  there is no RDMA device' /tmp/doctor
	grep 'fix: .* if what starts the RDMA stack has failed, iopm stop,' /tmp/doctor
	grep 'Module ib_core is in use by: .*\bib_peer_mem\b.* unloads io_peer_mem, replica, ib_peer_mem first$' /tmp/doctor
	load_stack
	as_before
}

test_stop_and_start() {
	stop 0
	must_fail loaded ib_peer_mem
	must_fail loaded replica
	stop_stack
	must_fail loaded ib_core
	("$IOPM" doctor || true) | grep 'unloaded io_peer_mem, replica, ib_peer_mem$'
	load_stack
	"$IOPM" start | tee /tmp/start
	grep -x 'loaded, with the clients io_peer_mem, replica' /tmp/start
	as_before
	"$IOPM" start | grep 'nothing was unloaded'
}

# Nothing changes, and what was unloaded before is there again.
test_who_holds_it() {
	launch hold -m 65536 -l 4096 /dev/replica
	stop 3
	grep -x "  peer_rdma (pid $pid) has 4 KiB of replica registered with $DEV" /tmp/stop
	stop 3 --force
	grep -x 'io_peer_mem is unloaded' /tmp/stop
	grep -x 'Module replica is in use by:' /tmp/stop
	grep -x "  peer_rdma (pid $pid) has /dev/replica open" /tmp/stop
	grep -x 'what was unloaded is loaded again' /tmp/stop
	kill_and_wait "$pid"
	as_before
}

# Of a client without a symbol only its name is known.
test_client_by_symbol() {
	insmod "$MODS/external/tests/symbols/replica_by_symbol.ko"
	stop 3
	grep -x '  client replica_by_symbol, whose driver has to be unloaded' /tmp/stop
	rmmod replica_by_symbol
	as_before
	rmmod replica
}
