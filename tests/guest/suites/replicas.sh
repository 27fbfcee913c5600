# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid is of steps.sh
#
# Habits of clients in the field, on the stock mlx5 driver (TOPOLOGY=connectx): each works, or is refused
# with an errno and a line. On the debug kernel KASAN sees what such a client looks at.

. ./steps.sh

SYMBOLS=$MODS/external/tests/symbols
NAMES='HOST RoCE
HOST RoCE 1'

setup() {
	load_stack
	load_core
}
before_test() { load_core; }

# load_replica: with a megabyte, so that a table of it is chained. habit NAME.
load_replica() {
	insmod "$SYMBOLS/replica.ko" pages=256
	eventually test -c /dev/replica
}
habit() { echo "$1" >/sys/module/replica/parameters/habit; }

# The clients hold the core; their module has no symbol of it.
test_symbol_is_given_back() {
	unload_modules
	refuses 'Unknown symbol' insmod "$SYMBOLS/replica_by_symbol.ko"
	load_core
	insmod "$SYMBOLS/replica_by_symbol.ko" 'name="HOST RoCE"' clients=2
	client_is "$NAMES"
	refuses 'is in use' rmmod ib_peer_mem
	# The names are whole.
	"$IOPM" status | grep 'HOST RoCE 1'
	"$IOPM" metrics | grep 'client="HOST RoCE 1"'
	"$IOPM" doctor | grep 'HOST RoCE 1' || fail "doctor does not name the client"
	"$IOPM" cdi | python3 -m json.tool >/dev/null
	rmmod replica_by_symbol
	client_is ""
	rmmod ib_peer_mem
}

test_tables() {
	local habit
	load_replica
	for habit in none page_link_0 length_0 nmap_more nmap_unset copy put_twice; do
		habit $habit
		"$RDMA" write -o 100 -l 1000001 /dev/replica || fail "$habit"
		balanced replica || fail "$habit"
	done
	rmmod replica
}

# It looks at the table of get_pages, and puts the pages, which the core has put.
test_client_unmaps_after_an_invalidation() {
	local pid
	load_replica
	habit unmaps
	launch hold -n 3 -o 100 -l 20000 /dev/replica
	echo 1 >/sys/module/replica/parameters/invalidate
	balanced replica
	kill_and_wait "$pid"
	eventually nothing_registered
	rmmod replica
}

# Neither the core nor a client in Rust, to which another core would say force in its own sense, is loaded
# beside another module with the functions; the line names the module.
test_another_module_exports_the_functions() {
	local owner=foreign_exporter
	unload_modules
	insmod "$SYMBOLS/foreign/$owner.ko"
	insmod_refuses "exports duplicate symbol ib_register_peer_memory_client .owned by $owner" "$MODS/ib_peer_mem.ko"
	insmod_refuses 'Unknown symbol ib_peer_mem_clear_hint' "$MODS/io_peer_mem.ko"
	"$IOPM" doctor >/tmp/doctor || true
	grep "FAIL  the functions of ib_peer_mem are owned by $owner: " /tmp/doctor
	"$IOPM" cdi 2>&1 | grep "^iopm: the functions of ib_peer_mem are owned by $owner: "
	refuses "modprobe has failed: $owner exports ib_register_peer_memory_client" "$IOPM" bind "$BDF_A"
	rmmod $owner
}
