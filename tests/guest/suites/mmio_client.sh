# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's; lkey, addr and pid are adapter.sh's
#
# The sample client for memory without struct pages: a driver that maps the BAR of an ivshmem
# device to processes, and does without ib_peer_mem if it is not there. The adapters are edu
# devices; behind an IOMMU as well (TOPOLOGY=iommu).

. ./steps.sh
. ./adapter.sh

CLIENT=mmio_client_sample
MODULE=$MODS/external/samples/mmio_client/$CLIENT.ko
NODE=/dev/mmio_client_$BDF_A
FUNCTION=/sys/bus/pci/devices/$BDF_A
LENGTH=20001
CHAIN=yes

TESTS="test_works_without_the_core test_load test_adapter_writes test_removed_under_an_mr
	test_removed_under_two_nodes test_removed_within_mmap test_unload"

setup() {
	load_stack
	unload_modules
	load_adapter
}

client_bind() {
	echo "$BDF_A" >"/sys/bus/pci/drivers/$CLIENT/bind"
	eventually test -c "$NODE"
}
mmio() { value_of "$PEERS/$CLIENT/$1"; }

test_works_without_the_core() {
	echo $CLIENT >"$FUNCTION/driver_override"
	insmod "$MODULE"
	eventually test -c "$NODE"
	log_since test | grep "$CLIENT: ib_peer_mem is not loaded"
	# The CPU maps it, and the adapter's driver cannot pin it.
	expect "error EFAULT" adapter_start a edu0 "$NODE" 0 4096
	rmmod $CLIENT
	[ ! -e "$NODE" ]
}

test_load() {
	load_core
	# Its driver_override binds the function.
	insmod "$MODULE"
	eventually test -c "$NODE"
	expect $CLIENT ls "$PEERS"
	expect 1.0 mmio version
	# No dependency of the module, but symbol_get() keeps the core.
	refuses 'is in use' rmmod ib_peer_mem
	balanced $CLIENT
}

# From host memory into the BAR by the adapter; the host finds the bytes behind the BAR.
test_adapter_writes() {
	adapter_start a edu0 "$NODE" 12345 $LENGTH
	expect "1 5 $LENGTH" in_use $CLIENT
	from_host edu0 61
	ask_host pattern a 12345 $LENGTH 61
	adapter_stop a
	balanced $CLIENT
}

# The MR is revoked, also if it is all that is left of the mapping, and of the file and its inode.
test_removed_under_an_mr() {
	local host bar before callbacks
	adapter_start h edu0 host 0 $LENGTH
	adapter_say h fill 63
	host="$lkey $addr"
	adapter_start a edu0 "$NODE" 0 $LENGTH
	bar="$lkey $addr"
	adapter_say a unmap
	adapter_dma edu0 "copy $host $bar $LENGTH"
	before=$(host_sum a)
	adapter_say h fill 64
	callbacks=$(mmio num_free_callbacks)
	unbind_in_time "$BDF_A"
	expect EACCES adapter_dma edu0 "copy $host $bar $LENGTH"
	expect "$before" host_sum a
	[ ! -e "$NODE" ]
	expect $((callbacks + 1)) mmio num_free_callbacks
	adapter_kill a
	adapter_stop h
	eventually balanced $CLIENT
	client_bind
}

# Each node has an inode, and a container has nodes of its own.
test_removed_under_two_nodes() {
	local other=/tmp/mmio_node major minor
	read -r major minor < <(stat -c '%Hr %Lr' "$NODE")
	mknod $other c "$major" "$minor"
	adapter_start a edu0 $other 0 4096
	adapter_say a fill 65
	# The node that is opened last.
	adapter_start b edu0 "$NODE" 4096 4096
	adapter_say b fill 66
	unbind_in_time "$BDF_A"
	expect "error SIGBUS" adapter_say a check 65
	expect "error SIGBUS" adapter_say b check 66
	adapter_stop a b
	rm $other
	eventually balanced $CLIENT
	client_bind
}

HOLD=/sys/module/hold_call_test/parameters

# held_mmap: maps the memory, and is held after the driver's mmap has returned and before the
# mapping is in the address space. Then reads the memory.
held_mmap() {
	exec python3 - "$NODE" <<'PYTHON'
import mmap, os, signal, sys

fd = os.open(sys.argv[1], os.O_RDWR)
with open("/sys/module/hold_call_test/parameters/armed", "w") as armed:
    armed.write(str(os.getpid()))
memory = mmap.mmap(fd, 4096)
# In a child, which the signal ends.
child = os.fork()
if not child:
    memory[0]
    os._exit(0)
status = os.waitpid(child, 0)[1]
killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS
print("SIGBUS" if killed else "readable")
PYTHON
}

# An unbind from beginning to end while mmap(2) is under way.
test_removed_within_mmap() {
	local mapper
	insmod "$MODS/external/tests/symbols/hold_call_test.ko" symbol=mas_store_prealloc
	held_mmap >/tmp/mmap 2>&1 &
	mapper=$!
	soon grep -qx 1 $HOLD/held
	unbind_in_time "$BDF_A"
	expect 1 cat $HOLD/held
	echo 0 >$HOLD/held
	ended $mapper || { cat /tmp/mmap; false; }
	expect SIGBUS cat /tmp/mmap
	rmmod hold_call_test
	client_bind
}

test_unload() {
	adapter_start a edu0 "$NODE" 0 $LENGTH
	# An open file or a mapping pins the module.
	refuses 'is in use' rmmod $CLIENT
	adapter_stop a
	eventually rmmod $CLIENT
	[ ! -e "$PEERS/$CLIENT" ]
	echo >"$FUNCTION/driver_override"
	unload_adapter
	load_bars
}
