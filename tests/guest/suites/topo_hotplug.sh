# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # init's; pid is that of start
#
# A hundred times in a row a function goes, in every way there is, while a writer
# writes and MRs sleep; and it comes back. Rounds are many and processes slow: what
# bash can do itself is not left to another program.

. ./steps.sh

# In turn; what way_WAY takes away, back_WAY brings back.
#   unplug  by QEMU (device_del): the driver is unbound first, then the device goes
#   remove  sysfs: remove, rescan
#   unbind  sysfs: the driver's unbind, bind
#   pull    the device is gone before anybody is told
WAYS=(unplug remove unbind pull)
ROUNDS=100
TEST_LIMIT=1500

setup() {
	load_stack
	load_modules
	find_bars
	cp /proc/iomem /tmp/iomem
	find_slot
}
find_slot() {
	local port cap
	port=$(realpath "/sys/bus/pci/devices/$BDF_B/..")
	# The PCI Express capability of the port, where its slot control is.
	cap=$(byte_of "$port" 52)
	while [ "$(byte_of "$port" "$cap")" != 16 ]; do cap=$(byte_of "$port" $((cap + 1))); done
	# What is in there, and the same with power, its indicator and interrupts off.
	set -- "$(byte_of "$port" $((cap + 24)))" "$(byte_of "$port" $((cap + 25)))"
	bytes "$1" "$2" >/tmp/on
	bytes $(($1 & ~32)) $(($2 | 7)) >/tmp/off
	echo $((cap + 24)) "$port" >/tmp/slot_control
}
# shellcheck disable=SC2059 # the inner one makes it
bytes() { printf "$(printf '\\x%02x' "$@")"; }
byte_of() { echo $(($(od -An -tu1 -j"$2" -N1 "$1/config"))); }

says() {
	local text
	read -rd '' text <"$1" || true
	[[ $text = *"$2"* ]]
}
dead() { ! kill -0 "$1" 2>/dev/null; }

# function_of WAY: sets bdf and name, of the function that goes that way.
function_of() {
	case $1 in
	pull) bdf=$BDF_B name=b ;;
	*) bdf=$BDF_A name=a ;;
	esac
}

way_unplug() { ask_host unplug peer-a; }
back_unplug() { ask_host plug peer-a a; }
way_remove() { echo 1 >"/sys/bus/pci/devices/$1/remove"; }
back_remove() { echo 1 >/sys/bus/pci/rescan; }
way_unbind() { unbind "$1"; }
back_unbind() { bind "$1"; }
# QEMU takes the device out as the slot's power goes off. That was not the slot's driver,
# pciehp: when interrupts are on again it finds a slot that has power, and is empty.
way_pull() {
	local at port
	read -r at port </tmp/slot_control
	dd if=/tmp/off of="$port/config" bs=2 seek=$((at / 2)) conv=notrunc status=none
	dd if=/tmp/on of="$port/config" bs=2 seek=$((at / 2)) conv=notrunc status=none
	soon absent "/sys/bus/pci/devices/$1"
}
# What comes before pciehp is done with the slot, its indicator last of all, is taken out
# again by QEMU.
back_pull() {
	# It sleeps a second.
	nap 1
	soon slot_is_off
	ask_host plug peer-b b
}
slot_is_off() {
	local at port
	read -r at port </tmp/slot_control
	[ $(($(byte_of "$port" $((at + 1))) & 7)) = 7 ]
}
absent() { [ ! -e "$1" ]; }

# stuck PID: what the removal waits for.
stuck() {
	cat /tmp/way "/proc/$1/stack" || true
	echo w >/proc/sysrq-trigger
	fail "the removal has not returned"
}

# one_round NUMBER WAY: what the removal took, in ms, is then in $took. Every seventh
# round the host is asked too: the writer goes on with the keys of its dead MR, even
# when the function is back, and no byte may change.
one_round() {
	local way=$2 bdf name node writer holder away began before again=()
	[ $(($1 % 7)) != 0 ] || again=(-t 60)
	function_of "$way"
	node=$(bar "$bdf")
	start forever forever -m $((4 << 20)) "${again[@]}" "$node"
	writer=$pid
	start hold hold -n 3 -m 65536 "$node"
	holder=$pid
	soon says /tmp/forever running
	soon says /tmp/hold 'holding 3'
	expect "4 1072 4390912" in_use

	began=${EPOCHREALTIME/[.,]/}
	"way_$way" "$bdf" >/tmp/way 2>&1 &
	away=$!
	soon dead $away || stuck $away
	wait $away || { cat /tmp/way; false; }
	took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
	[ ! -e "$node" ] || fail "$node is still there"
	[ "$way" = unbind ] || [ ! -e "/sys/bus/pci/devices/$bdf" ]
	balanced
	soon says /tmp/forever 'remote access error'
	kill -0 "$holder"

	[ ${#again[@]} = 0 ] || before=$(ask_host sum "$name")
	"back_$way" "$bdf"
	soon test -c "$node"
	if [ ${#again[@]} != 0 ]; then
		kill -0 "$writer"
		[ "$(ask_host sum "$name")" = "$before" ] || fail "bytes behind the BAR change after the removal"
		kill "$writer"
	fi
	soon dead "$writer"
	wait "$writer"
	kill "$holder"
	wait "$holder" 2>/dev/null || true
	if [ ${#again[@]} != 0 ]; then
		"$RDMA" write -o 12345 -l 100001 -s "$1" "$node" >/tmp/write
		host_has "$name" /tmp/write wrote
	fi
	balanced
}

test_in_turn() {
	local i way took longest=0 began=$SECONDS allocs callbacks checks=$((ROUNDS / 7))
	declare -A times=() worst=()
	allocs=$(counter num_alloc_mrs)
	callbacks=$(counter num_free_callbacks)
	for ((i = 1; i <= ROUNDS; i++)); do
		way=${WAYS[i % ${#WAYS[@]}]}
		echo "round $i: $way"
		one_round $i "$way"
		times[$way]=$((${times[$way]:-0} + 1))
		[ "$took" -le "${worst[$way]:-0}" ] || worst[$way]=$took
		[ "$took" -le $longest ] || longest=$took
	done
	note "$ROUNDS removals in $((SECONDS - began)) s, the longest took $longest ms; $checks times the host has checked the bytes"
	for way in "${WAYS[@]}"; do note "$way: ${times[$way]} times, the longest took ${worst[$way]} ms"; done
	[ $longest -lt 10000 ]
	# Four MRs in each round, and one more where bytes are checked; none came back twice.
	expect $((allocs + 4 * ROUNDS + checks)) counter num_alloc_mrs
	expect $((allocs + 4 * ROUNDS + checks)) counter num_dealloc_mrs
	expect $((callbacks + 4 * ROUNDS)) counter num_free_callbacks
}

# Each function has what it had: addresses, memory, a node.
test_nothing_lost() {
	local bdf size free
	find_bars
	diff /tmp/iomem /proc/iomem
	for bdf in "$BDF_A" "$BDF_B"; do
		size=$(cat "/sys/bus/pci/devices/$bdf/p2pmem/size")
		free=$(cat "/sys/bus/pci/devices/$bdf/p2pmem/available")
		[ "$size" = "$free" ] || fail "$bdf: $free of $size bytes are free"
	done
	[ "$(echo /dev/io_peer_mem/*)" = "$(printf '/dev/io_peer_mem/%s\n' "$BDF_A" "$BDF_B" | sort | paste -sd' ')" ]
	"$RDMA" copy -o 5 -l 100000 "$BAR_A" "$BAR_B"
}
