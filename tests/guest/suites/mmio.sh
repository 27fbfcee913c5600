# SPDX-License-Identifier: GPL-2.0
#
# BARs that are mapped from resourceN in sysfs, without struct pages, with mmio=1. The suite mmio_any
# has other mappings, and the end of a mapping.
# Software RDMA needs struct pages; the test adapter does not.

# shellcheck disable=SC2154 # lkey and addr are set by adapter_start

. ./steps.sh
. ./adapter.sh

# Too small for struct pages, so no driver is bound to it.
PEER=$BDF_SMALL
FUNCTION=/sys/bus/pci/devices/$PEER
MMIO=$FUNCTION/resource2
SIZE=$((1 << 20))
PARAMETER=$PARAMETERS/mmio

setup() {
	load_stack
	load_bars
	echo 1 >"$FUNCTION/enable"
	[ ! -e "$FUNCTION/driver" ]
}

before_test() {
	load_bars
	echo 1 >"$PARAMETER"
}

# refused PATTERN ARGUMENTS...: EFAULT and matching log lines, and no leak.
refused() {
	logs "$1" expect "registration: EFAULT" "$RDMA" reg "${@:2}"
	balanced
}

# unclaimed ARGUMENTS...: EFAULT, and the line of the adapter's driver alone.
unclaimed() { logs_one "rxe_reg_user_mr: returned err" expect "registration: EFAULT" "$RDMA" reg "$@"; }

# Off by default. Affects later registrations.
test_parameter_at_run_time() {
	local value
	unload_io
	load_io
	unclaimed -m $SIZE "$MMIO"
	for value in 1 sysfs any; do
		echo $value >"$PARAMETER"
		refused "no struct pages" -m $SIZE "$MMIO"
	done
	[ ! -e "${MMIO}_wc" ] || refused "no struct pages" -m $SIZE "${MMIO}_wc"
}

# Another BAR of the function, and one of another function.
test_continues_in_another_bar() {
	local other
	echo 1 >"/sys/bus/pci/devices/$BDF_NIC/enable"
	for other in "$FUNCTION/resource0" "/sys/bus/pci/devices/$BDF_NIC/resource0"; do
		refused "io_peer_mem: $PEER: BAR 2: cannot register 4097 bytes: .*not all of it" -J -m 4096 -l 4097 "$MMIO" "$other"
		# The rest of it is as good.
		refused "no struct pages" -J -m 4096 -l 4096 "$MMIO" "$other"
	done
	echo 0 >"/sys/bus/pci/devices/$BDF_NIC/enable"
}

test_private_mappings_are_not_claimed() {
	unclaimed -P -m 4096 -l 4096 "$MMIO"
	echo any >"$PARAMETER"
	unclaimed -P -m 4096 -l 4096 "$MMIO"
}

# /dev/mem maps the same pages, but is not a file of sysfs, and no driver knows who maps it.
test_other_files_are_not_claimed() {
	local start value
	[ -c /dev/mem ] || mknod /dev/mem c 1 1
	start=$(sed -n '3s/ .*//p' "$FUNCTION/resource")
	for value in 1 any; do
		echo $value >"$PARAMETER"
		unclaimed -m 4096 -@ "$start" /dev/mem
	done
	# From a file of sysfs it is claimed.
	refused "no struct pages" -m 8192 -@ 4096 "$MMIO"
}

# --- with an adapter that has a DMA engine ---

# mmio_mr OFFSET LENGTH: the process bar has an MR of edu0.
mmio_mr() {
	loaded peer_mem_test_adapter || load_adapter
	adapter_start bar edu0 "$MMIO" "$@"
}

# Checked by the host in the file behind the BAR, and by the process in its mapping.
test_adapter_writes_and_reads() {
	mmio_mr 4196 20001
	from_host edu0 61
	adapter_say bar check 61
	echo "wrote offset=4196 length=20001 seed=61" >/tmp/write
	host_has small /tmp/write wrote
	to_host edu0 61
	expect "1 5 20001" in_use
	adapter_stop bar
	balanced
}

# mr_is_dead: the MR exists, and accesses to it fail.
mr_is_dead() {
	balanced
	expect EACCES adapter_dma edu0 "write $lkey $addr 16"
	adapter_say bar dereg
	adapter_stop bar
}

# A driver binds to the function: the MR is revoked.
test_adapter_and_a_driver() {
	mmio_mr 0 $SIZE
	logs "$PEER.*at least 2 MiB" refuses 'No such device' bind "$PEER"
	mr_is_dead
	# The driver did not bind, so the BAR can be registered again.
	mmio_mr 0 $SIZE
	adapter_stop bar
}

test_adapter_and_our_unloading() {
	mmio_mr 0 $SIZE
	timeout 60 rmmod io_peer_mem
	expect EACCES adapter_dma edu0 "write $lkey $addr 16"
	adapter_stop bar
}
