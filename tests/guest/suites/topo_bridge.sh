# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port; the CPU is one whose host bridge routes
# peer-to-peer DMA.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_p2pdma test_bus_addresses test_mr_of_the_whole_bar test_memory_cgroup test_from_bar_to_bar
	test_revoked test_asking_takes_nothing test_bridges_are_refused"

test_p2pdma() { p2pdma_says "through the host bridge"; }

# A root port of the adapters, which no other driver has by now.
test_bridges_are_refused() {
	local port driver
	port=$(readlink -f "/sys/bus/pci/devices/$NEAR/..")
	driver=$(readlink -f "$port/driver" || true)
	port=${port##*/}
	[ -z "$driver" ] || unbind "$port"
	echo io_peer_mem >"/sys/bus/pci/devices/$port/driver_override"
	logs "$port: cannot be used: it is a bridge" must_fail bind "$port"
	echo >"/sys/bus/pci/devices/$port/driver_override"
	[ -z "$driver" ] || echo "$port" >"$driver/bind"
}

# While a process has a page of the BAR, which is larger than a block of io_peer_mem.
test_asking_takes_nothing() {
	local function=/sys/bus/pci/devices/$BDF_A
	local available=$function/p2pmem/available
	adapter_start a -m 4096 "$(adapter_at "$NEAR")" "$BAR_A" 0 4096
	expect $((SIZE_A - (64 << 20))) cat "$available"
	"$IOPM" list
	"$IOPM" info "$BAR_A" | tee /tmp/info
	grep -x "free:      $((SIZE_A - PAGE))" /tmp/info
	grep -x "largest:   $((SIZE_A - PAGE))" /tmp/info
	"$IOPM" nearest "$BDF_B"
	"$IOPM" doctor || true
	more_than_there_is | tee /tmp/more
	grep -x 'DM_ALLOC ENOMEM' /tmp/more
	grep -x 'mmap ENOMEM' /tmp/more
	expect $((SIZE_A - (64 << 20))) cat "$available"
	insmod "$MODS/external/tests/symbols/p2pmem_user_test.ko" "bdf=$BDF_A"
	expect 1 cat /sys/module/p2pmem_user_test/parameters/can_allocate
	rmmod p2pmem_user_test
	adapter_stop a
	eventually balanced
	expect "$SIZE_A" cat "$available"
}

# Asks for a PiB, and maps 64 TiB, which most processors have addresses for.
more_than_there_is() {
	python3 - "$BAR_A" <<'PYTHON'
from calls import *

fd = os.open(sys.argv[1], os.O_RDWR)
print("DM_ALLOC", answer(allocate, fd, 1 << 50))
print("mmap", answer(mapped, fd, 1 << 46))
PYTHON
}
