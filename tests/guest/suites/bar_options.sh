# SPDX-License-Identifier: GPL-2.0
#
# Options of io_peer_mem: ranges of BARs, parameters at run time, and options of one function.

. ./steps.sh

# Without parameters.
before_test() {
	unload_io
	load_bars
}

# --- ranges= ---

test_range_of_a_bar() {
	load_io_with ranges=2:0x400000:0x200000
	find_bars
	expect 2097152 cat "/sys/bus/pci/devices/$BDF_A/p2pmem/size"
	"$RDMA" write -o 4097 -l 700003 -s 71 "$BAR_A" | tee /tmp/write
	grep -o 'offset=[^ ]*' /tmp/write | { IFS='=' read -r _ at && [ $((at)) -gt $((4 << 20)) ]; }
	host_has a /tmp/write wrote
	must_fail "$RDMA" reg -m $((4 << 20)) "$BAR_A" 2>&1 | grep 'Cannot allocate memory'
}

test_range_past_the_end() {
	logs "$BDF_A: BAR 2 cannot be used: it ends before" load_io_with ranges=2:0x3000000:0x2000000
	[ ! -e "/sys/bus/pci/devices/$BDF_A/driver" ]
}

# --- parameters in /sys/module ---

test_ranges_at_run_time() {
	# Without the newline of echo.
	printf 2:0x400000:0x200000 >"$PARAMETERS/ranges"
	expect 2:0x400000:0x200000 cat "$PARAMETERS/ranges"
	# A bound function keeps its ranges.
	expect $((64 << 20)) cat "/sys/bus/pci/devices/$BDF_A/p2pmem/size"
	bind_again "$BDF_B" $((2 << 20))
	"$RDMA" write -o 4099 -l 700001 -s 72 "$BAR_B" | tee /tmp/write
	host_has b /tmp/write wrote
	echo >"$PARAMETERS/ranges"
	expect "" cat "$PARAMETERS/ranges"
	bind_again "$BDF_B" $((32 << 20))
}

# wrong PARAMETER TEXT: fails with EINVAL and a log line, and the value stays.
wrong() {
	local was
	was=$(cat "$PARAMETERS/$1")
	log_step "$1=$2"
	must_fail eval "echo '$2' >$PARAMETERS/$1" 2>&1 | grep 'Invalid argument'
	one_line "io_peer_mem: $1=$2: not "
	expect "$was" cat "$PARAMETERS/$1"
}

test_wrong_values_at_run_time() {
	echo 2:0:0x200000 >"$PARAMETERS/ranges"
	wrong ranges 2:0:0
	echo >"$PARAMETERS/ranges"
	wrong bars '2 5'
	wrong mmio maybe
	# New ids have a file of the PCI core.
	refuses 'Permission denied' eval "echo 1af4:1110 >$PARAMETERS/ids"
	refuses 'Permission denied' eval "echo 0000:03:00.0 >$PARAMETERS/devices"
	bind_again "$BDF_A" $((64 << 20))
}

# --- options of one function ---

BIND_WITH=/sys/bus/pci/drivers/io_peer_mem/bind_with

# sizes A B: the memory of both functions.
sizes() {
	eventually test -c "$BAR_A"
	eventually test -c "$BAR_B"
	expect "$1" cat "/sys/bus/pci/devices/$BDF_A/p2pmem/size"
	expect "$2" cat "/sys/bus/pci/devices/$BDF_B/p2pmem/size"
}

# Two functions are bound at the same time, each with its own options; and one by its id meanwhile,
# as if it were plugged in.
test_options_of_one_function() {
	local i first second
	unbind "$BDF_A"
	unbind "$BDF_B"
	for i in 1 2; do
		echo "$BDF_A ranges=2:0:0x200000" >$BIND_WITH &
		first=$!
		echo "$BDF_B bars=2 ranges=2:0x400000:0x400000 publish=0" >$BIND_WITH &
		second=$!
		wait $first
		wait $second
		sizes $((2 << 20)) $((4 << 20))
		expect 1 published "$BDF_A"
		expect 0 published "$BDF_B"
		unbind "$BDF_A"
		unbind "$BDF_B"
		echo "$BDF_A ranges=2:0:0x200000" >$BIND_WITH &
		first=$!
		bind "$BDF_B"
		wait $first
		sizes $((2 << 20)) $((32 << 20))
		expect 1 published "$BDF_B"
		unbind "$BDF_A"
		unbind "$BDF_B"
	done
	for i in bars ranges publish; do expect "" cat "$PARAMETERS/$i"; done
	# The next time it is bound as all others.
	bind "$BDF_A"
	bind "$BDF_B"
	sizes $((64 << 20)) $((32 << 20))
}

# The parameters count for what is not given.
test_options_and_parameters() {
	echo 0 >"$PARAMETERS/publish"
	echo 2:0:0x800000 >"$PARAMETERS/ranges"
	unbind "$BDF_B"
	echo "$BDF_B" >$BIND_WITH
	expect $((8 << 20)) cat "/sys/bus/pci/devices/$BDF_B/p2pmem/size"
	expect 0 published "$BDF_B"
	unbind "$BDF_B"
	echo "$BDF_B bars=2 publish=1" >$BIND_WITH
	expect $((32 << 20)) cat "/sys/bus/pci/devices/$BDF_B/p2pmem/size"
	expect 1 published "$BDF_B"
	echo >"$PARAMETERS/publish"
	echo >"$PARAMETERS/ranges"
	bind_again "$BDF_B" $((32 << 20))
}

# bind_with_fails ERROR TEXT
bind_with_fails() {
	must_fail eval "echo '$2' >$BIND_WITH" 2>&1 | grep "$1"
}
test_wrong_options_of_one_function() {
	bind_with_fails 'resource busy' "$BDF_B"
	unbind "$BDF_B"
	logs_one 'io_peer_mem: bind_with: .*: not domain:bus:device.function and values of' \
		bind_with_fails 'Invalid argument' "$BDF_B mmio=1"
	bind_with_fails 'No such device' "0000:fe:1f.7 bars=2"
	# Neither an id nor a driver_override.
	[ -z "${BDF_SSD:-}" ] || { [ ! -e "/sys/bus/pci/devices/$BDF_SSD/driver" ] || unbind "$BDF_SSD"
		bind_with_fails 'No such device' "$BDF_SSD bars=2"; }
	# Nothing is left of a bind that has failed.
	logs "$BDF_B: BAR 0 cannot be used" bind_with_fails 'Invalid argument' "$BDF_B bars=0"
	bind "$BDF_B"
	sizes $((64 << 20)) $((32 << 20))
}
