# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's; pid is that of start
#
# A function is removed in every way, with a running writer and idle MRs, and added
# again. On the kernel command line: peer.rounds=N for more rounds.

. ./steps.sh

# The ways, in turn; way_WAY removes the function, back_WAY adds it again.
#   unplug  by QEMU (device_del): the driver is unbound, then the device removed
#   remove  sysfs: remove, rescan
#   unbind  sysfs: the driver's unbind, bind
#   pull    surprise removal: the device disappears first
WAYS=(unplug remove unbind pull)
ROUNDS=${ROUNDS:-4}
TEST_LIMIT=$((300 + 30 * ROUNDS))

setup() {
	load_stack
	load_bars
	cp /proc/iomem /tmp/iomem
	find_slot
}
find_slot() {
	local port cap
	port=$(realpath "/sys/bus/pci/devices/$BDF_B/..")
	# The PCI Express capability of the port has its slot control.
	cap=$(byte_of "$port" 52)
	while [ "$(byte_of "$port" "$cap")" != 16 ]; do cap=$(byte_of "$port" $((cap + 1))); done
	# Its value, and the value with power, power indicator and interrupts off.
	set -- "$(byte_of "$port" $((cap + 24)))" "$(byte_of "$port" $((cap + 25)))"
	bytes "$1" "$2" >/tmp/on
	bytes $(($1 & ~32)) $(($2 | 7)) >/tmp/off
	echo $((cap + 24)) "$port" >/tmp/slot_control
}
# shellcheck disable=SC2059 # the inner printf makes the format
bytes() { printf "$(printf '\\x%02x' "$@")"; }
byte_of() { echo $(($(od -An -tu1 -j"$2" -N1 "$1/config"))); }

way_unplug() { ask_host unplug peer-a; }
back_unplug() { ask_host plug peer-a a; }
way_remove() { echo 1 >"/sys/bus/pci/devices/$1/remove"; }
back_remove() { echo 1 >/sys/bus/pci/rescan; }
way_unbind() { unbind "$1"; }
back_unbind() { bind "$1"; }
# QEMU removes the device when the slot's power is switched off, here without the slot's
# driver, pciehp. When interrupts are on again, pciehp finds an empty slot with power.
way_pull() {
	local at port
	read -r at port </tmp/slot_control
	dd if=/tmp/off of="$port/config" bs=2 seek=$((at / 2)) conv=notrunc status=none
	dd if=/tmp/on of="$port/config" bs=2 seek=$((at / 2)) conv=notrunc status=none
	soon test ! -e "/sys/bus/pci/devices/$1"
}
# QEMU removes a device again that is added before pciehp has switched the slot off, its
# indicator last.
back_pull() {
	# pciehp sleeps for a second first.
	nap 1
	soon slot_is_off
	ask_host plug peer-b b
}
slot_is_off() {
	local at port
	read -r at port </tmp/slot_control
	[ $(($(byte_of "$port" $((at + 1))) & 7)) = 7 ]
}

# one_round NUMBER WAY: the writer continues with the keys of its revoked MR, also after the function is back,
# and the host checks that no byte changes.
one_round() {
	local way=$2 bdf=$BDF_A name=a node writer holder before
	[ "$way" != pull ] || bdf=$BDF_B name=b
	node=$(bar "$bdf")
	launch forever -m $((4 << 20)) -t 600 "$node"
	writer=$pid
	launch hold -n 3 -m 65536 "$node"
	holder=$pid
	expect "4 1072 4390912" in_use

	"way_$way" "$bdf" >/tmp/way 2>&1 &
	ended $! || { cat /tmp/way; false; }
	[ ! -e "$node" ] || fail "$node is still there"
	[ "$way" = unbind ] || [ ! -e "/sys/bus/pci/devices/$bdf" ]
	balanced
	wait_line /tmp/forever 'remote access error'
	kill -0 "$holder"

	before=$(ask_host sum "$name")
	"back_$way" "$bdf"
	soon test -c "$node"
	kill -0 "$writer"
	[ "$(ask_host sum "$name")" = "$before" ] || fail "bytes behind the BAR change after the removal"
	kill "$writer"
	ended "$writer"
	kill_and_wait "$holder"
	"$RDMA" write -o 12345 -l 100001 -s "$1" "$node" >/tmp/write
	host_has "$name" /tmp/write wrote
	balanced
}

test_in_turn() {
	local i way allocs callbacks
	allocs=$(counter num_alloc_mrs)
	callbacks=$(counter num_free_callbacks)
	for ((i = 1; i <= ROUNDS; i++)); do
		way=${WAYS[i % ${#WAYS[@]}]}
		echo "round $i: $way"
		one_round $i "$way"
	done
	# No removal has waited for a fence that failed: bad-log has its lines.
	# Four MRs per round, and one more afterwards; each is released once.
	expect $((allocs + 5 * ROUNDS)) counter num_alloc_mrs
	expect $((allocs + 5 * ROUNDS)) counter num_dealloc_mrs
	expect $((callbacks + 4 * ROUNDS)) counter num_free_callbacks
}

# Each function has its addresses, its memory and its device node again.
test_nothing_lost() {
	find_bars
	diff /tmp/iomem /proc/iomem
	all_free "$BDF_A" "$BDF_B"
	[ "$(echo /dev/io_peer_mem/*)" = "$(printf '/dev/io_peer_mem/%s\n' "$BDF_A" "$BDF_B" | sort | paste -sd' ')" ]
	"$RDMA" copy -o 5 -l 100000 "$BAR_A" "$BAR_B"
}
