# SPDX-License-Identifier: GPL-2.0
#
# Which functions and BARs are used, p2pmem/allocate, and queries.

. ./steps.sh

# --- which functions and BARs are used, and how ---

before_test() { load_bars; }

# bus_master BDF: bit 2 of the command register.
bus_master() { echo $((0x$(setpci -s "$1" COMMAND) & 4)); }

# Firmware or an earlier driver may have left bus mastering enabled.
test_bus_mastering_is_disabled() {
	unbind "$BDF_B"
	setpci -s "$BDF_B" COMMAND=4:4
	expect 4 bus_master "$BDF_B"
	bind "$BDF_B"
	expect 0 bus_master "$BDF_B"
	echo 1 >"$PARAMETERS/busmaster"
	unbind "$BDF_B"
	setpci -s "$BDF_B" COMMAND=4:4
	bind "$BDF_B"
	expect 4 bus_master "$BDF_B"
	echo >"$PARAMETERS/busmaster"
	bind_again "$BDF_B" $((32 << 20))
	expect 0 bus_master "$BDF_B"
}

# Struct pages come by whole pages: if two functions had parts of one, the kernel would free the struct
# pages of both with those of the first.
test_smallest_part_of_a_bar() {
	local size=$((2 << 20))
	[ $((PAGE * PAGE / 64)) -le $size ] || size=$((PAGE * PAGE / 64))
	logs "$BDF_A: BAR 2 cannot be used: it is too small or not aligned" load_io_with "ranges=2:0:$((size / 2))"
	[ ! -e "/sys/bus/pci/devices/$BDF_A/driver" ]
	load_io_with "ranges=2:0:$size"
	find_bars
	expect $size cat "/sys/bus/pci/devices/$BDF_A/p2pmem/size"
	"$RDMA" write -o 99 -l 100000 "$BAR_A"
	unload_io
	load_bars
}

# joined MEMORY MEMORY [OPTION...]: the one right behind the other, of 1 MiB each, is refused by one line.
joined() {
	logs_one "io_peer_mem $(basename "$(dirname "$1")"): BAR 2: cannot register [0-9]+ bytes: .* \(not all of it" \
		expect "registration: EFAULT" "$RDMA" reg -J -l $((2 << 20)) "${@:3}" "$1" "$2"
	balanced
}

# Each BAR is revoked by its own function alone.
test_range_across_two_bars() {
	expect "registration: ok" "$RDMA" reg -J -l $((2 << 20)) "$BAR_A"
	joined "$BAR_A" "$BAR_B"
	joined "$BAR_B" "$BAR_A"
	joined "$BAR_A" host
	# One byte of the other.
	joined "$BAR_A" "$BAR_B" -o $(((1 << 20) - 4096)) -l 4097
	expect "registration: ok" "$RDMA" reg -J -o $(((1 << 20) - 4096)) -l 4096 "$BAR_A" "$BAR_B"
}

# A prefetchable BAR of 64 MiB of an SSD: used only if bars= names it.
test_class_that_is_not_memory() {
	local ssd=/sys/bus/pci/devices/${BDF_SSD:-}
	[ -n "${BDF_SSD:-}" ] || skip "no SSD in this guest"
	[ ! -e "$ssd/driver" ] || unbind "$BDF_SSD"
	echo io_peer_mem >"$ssd/driver_override"
	logs "$BDF_SSD: BAR 2 is not used: in a function of class 0x010802" must_fail bind "$BDF_SSD"
	[ ! -e "$(bar "$BDF_SSD")" ]
	echo 2 >"$PARAMETERS/bars"
	bind "$BDF_SSD"
	eventually test -c "$(bar "$BDF_SSD")"
	expect 0 published "$BDF_SSD"
	unbind "$BDF_SSD"
	echo 1 >"$PARAMETERS/publish"
	bind "$BDF_SSD"
	expect 1 published "$BDF_SSD"
	unbind "$BDF_SSD"
	echo >"$PARAMETERS/publish"
	echo >"$PARAMETERS/bars"
	echo >"$ssd/driver_override"
}

# load_for DEVICES: the client, for these functions and no ids.
load_for() { unload_io && insmod "$MODS/io_peer_mem.ko" "devices=$1"; }
overridden() { cat "/sys/bus/pci/devices/$1/driver_override"; }

# One of two functions with the same id.
test_devices() {
	load_for "$BDF_B"
	eventually test -c "$BAR_B"
	[ ! -e "/sys/bus/pci/devices/$BDF_A/driver" ]
	expect io_peer_mem overridden "$BDF_B"
	expect "(null)" overridden "$BDF_A"
	"$RDMA" write "$BAR_B"
	# A function that a rescan finds is another one, and not bound.
	echo 1 >"/sys/bus/pci/devices/$BDF_B/remove"
	echo 1 >/sys/bus/pci/rescan
	[ ! -e "/sys/bus/pci/devices/$BDF_B/driver" ]
	unload_io
	expect "(null)" overridden "$BDF_B"
	# Of the administrator, for the time after.
	load_for "$BDF_B"
	echo other >"/sys/bus/pci/devices/$BDF_B/driver_override"
	unload_io
	expect other overridden "$BDF_B"
	echo >"/sys/bus/pci/devices/$BDF_B/driver_override"
}

test_devices_that_cannot_be_bound() {
	local driver
	echo other >"/sys/bus/pci/devices/$BDF_B/driver_override"
	driver=$(readlink "/sys/bus/pci/devices/$BDF_NIC/driver") || driver=
	log_step devices
	load_for "0000:fe:1f.7,$BDF_B,$BDF_NIC,$BDF_A"
	log_since step >/tmp/lines
	grep "io_peer_mem: devices: there is no PCI function 0000:fe:1f.7" /tmp/lines
	grep "io_peer_mem: devices: $BDF_B is not bound: it has a driver_override" /tmp/lines
	expect other overridden "$BDF_B"
	[ -z "$driver" ] || grep "io_peer_mem: devices: $BDF_NIC is bound to another driver" /tmp/lines
	# The others are bound.
	eventually test -c "$BAR_A"
	unload_io
	expect other overridden "$BDF_B"
	echo >"/sys/bus/pci/devices/$BDF_B/driver_override"
	logs "io_peer_mem: devices=0000:03:00: not a list" must_fail load_for "0000:03:00"
	load_bars
}

# --- p2pmem/allocate, which the kernel creates for every provider ---

# The free memory is that of processes while one has an allocation, and afterwards that of the kernel's
# pool again.
test_p2pmem_allocate_and_processes() {
	local pid available=/sys/bus/pci/devices/$BDF_A/p2pmem/available
	expect $((64 << 20)) cat "$available"
	launch hold -n 1 "$BAR_A"
	expect 0 cat "$available"
	must_fail "$RDMA" reg "${available%/*}/allocate" 2>&1 | grep 'Cannot allocate memory'
	kill_and_wait "$pid"
	eventually balanced
	expect $((64 << 20)) cat "$available"

	# Memory of the kernel's pool that is in use stays there.
	launch hold -n 1 -m $((4 << 20)) "${available%/*}/allocate"
	"$IOPM" info "$BAR_A" | grep -x "free:      $((60 << 20))"
	"$RDMA" write -o 77 -l 100000 "$BAR_A"
	expect $((60 << 20)) cat "$available"
	kill_and_wait "$pid"
	eventually balanced
	expect $((64 << 20)) cat "$available"
}

# A driver provides memory and its probe fails: until that memory is gone it must not be registered,
# or the release would wait for the memory region.
test_registration_while_a_failed_driver_is_released() {
	local pid held=/sys/module/failed_probe_test/parameters/held
	local function=/sys/bus/pci/devices/$BDF_B
	unbind "$BDF_B"
	insmod "$MODS/external/tests/symbols/failed_probe_test.ko"
	echo failed_probe_test >"$function/driver_override"
	echo "$BDF_B" >/sys/bus/pci/drivers/failed_probe_test/bind 2>/tmp/bind &
	pid=$!
	eventually grep -qx 1 $held
	[ -e "$function/p2pmem/allocate" ]
	logs_one "$BDF_B: BAR 2: cannot register .*the device is being removed or changes drivers" \
		expect "registration: ENODEV" "$RDMA" reg "$function/p2pmem/allocate"
	expect 1 cat $held
	echo 0 >$held
	must_fail ended "$pid"
	grep 'No such device' /tmp/bind
	[ ! -e "$function/p2pmem" ]
	rmmod failed_probe_test
	echo >"$function/driver_override"
	# The events of a bound driver count again.
	rebind "$BDF_B"
	"$RDMA" write "$function/p2pmem/allocate"
}

test_bar_that_another_driver_has_claimed() {
	unbind "$BDF_B"
	insmod "$MODS/external/tests/symbols/p2pmem_user_test.ko" "bdf=$BDF_B" claim=1
	logs "$BDF_B: BAR 2 is claimed by another driver: " refuses 'Device or resource busy' bind "$BDF_B"
	[ ! -e "/sys/bus/pci/devices/$BDF_B/driver" ]
	rmmod p2pmem_user_test
	bind_again "$BDF_B" $((32 << 20))
}

# Another driver has published memory: the unbind revokes all memory regions at once, allows no
# allocation, and ends when that driver frees.
test_unbind_while_another_driver_has_memory() {
	local writer pid user=/sys/module/p2pmem_user_test/parameters
	insmod "$MODS/external/tests/symbols/p2pmem_user_test.ko" "bdf=$BDF_B"
	expect 1 cat $user/can_allocate
	launch forever -t 2 "$BAR_B"
	writer=$pid
	unbind "$BDF_B" &
	pid=$!
	wait_line /tmp/forever 'remote access error'
	eventually test ! -e "$BAR_B"
	ended "$writer"
	balanced
	eventually grep -qx 0 $user/can_allocate
	must_fail gone "$pid"
	echo 0 >$user/has
	ended "$pid"
	rmmod p2pmem_user_test
	bind_again "$BDF_B" $((32 << 20))
}

# Another driver allocates while the driver is unbound, when the kernel has freed the memory map and
# still has the pool. KASAN reports a use of the map.
test_allocation_when_the_memory_map_is_gone() {
	local user=/sys/module/p2pmem_user_test/parameters
	insmod "$MODS/external/tests/symbols/p2pmem_user_test.ko" "bdf=$BDF_B" late=1
	expect 1 cat $user/can_allocate
	unbind "$BDF_B"
	expect "1 0" cat $user/late_result
	rmmod p2pmem_user_test
	bind_again "$BDF_B" $((32 << 20))
}

# What another driver has left in memory that it frees, such as the blocks of the NVMe target.
# The quota is one of processes.
test_what_other_drivers_leave() {
	echo 4096 >"$PARAMETERS/quota"
	leave
	echo >"$PARAMETERS/quota"
	expect 0 left
	echo never >"$PARAMETERS/zero"
	bind_again "$BDF_B" $((32 << 20))
	leave
	expect 65536 left
	echo >"$PARAMETERS/zero"
	bind_again "$BDF_B" $((32 << 20))
	expect 0 left
}
leave() {
	insmod "$MODS/external/tests/symbols/p2pmem_user_test.ko" "bdf=$BDF_B"
	rmmod p2pmem_user_test
}
# The bytes that are not 0 in what a process gets.
left() {
	python3 -c "import mmap, os
print(sum(map(bool, mmap.mmap(os.open('$BAR_B', os.O_RDWR), 65536)[:])))"
}

# --- IO_PEER_MEM_IOC_NEAREST ---

# nearest BDF: queries the first BAR by the descriptor $FD; prints the nearest function, or the errno. Other
# answers, libiopm and the structure are in topo_switch, the suite dm and KUnit.
nearest() {
	python3 - "$FD" "$1" <<'PYTHON'
import re
from calls import *

domain, bus, dev, fn = (int(x, 16) for x in re.split("[:.]", sys.argv[2]))
arg = NearestArg(1, 0, domain, bus << 8 | dev << 3 | fn)
got = ioctl(int(sys.argv[1]), NEAREST, byref(arg))
if got:
    print(errorcode[got])
if arg.flags & 1:
    a = arg.provider_address
    print("nearest %04x:%02x:%02x.%x %d" % (arg.provider_domain, a >> 8, a >> 3 & 31, a & 7, arg.provider_distance))
PYTHON
}

# The file stays open while the function is unbound: its configuration space must not be
# accessed any more.
test_nearest_of_a_gone_function() {
	local FD
	exec {FD}<"$BAR_A"
	nearest "$BDF_B" | tee /dev/fd/2 | grep -x "nearest $BDF_B 0"
	unbind "$BDF_A"
	expect ENODEV nearest "$BDF_B"
	exec {FD}<&-
	rebind "$BDF_A"
}
