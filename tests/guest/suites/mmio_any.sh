# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's; lkey, addr and pid are adapter.sh's, UIO of uio_bind
#
# BARs that drivers map to processes without a peer memory client, with mmio=any: mapped by page faults,
# or by remap_pfn_range(). An unmapping by the driver or by the process revokes before it returns. The
# adapters are edu devices, or the emulated ConnectX (TOPOLOGY=connectx); soft RoCE registers nothing,
# and the log says whether a mapping is claimed.

. ./suites/mmio.sh

# The sample client is loaded before the core, and so is a driver that does without it. It maps by faults,
# and unmaps by unmap_mapping_range().
CLIENT=mmio_client_sample
NODE=/dev/mmio_client_$BDF_A
# resource2 of BDF_SMALL is mapped by remap_pfn_range().
RESOURCE=$MMIO
LENGTH=20001
CHAIN=yes

DEVICES=$DEV
TESTS="test_driver_unmaps test_process_unmaps test_fork test_exec test_thousand_regions"
# The debug kernel has no UIO. For edu it has in make soak what the ConnectX shows in make check.
case $DEV:$KIND in
rxe0:debug) TESTS+=" test_refused" ;;
rxe0:*) TESTS="test_refused test_msix_table test_end_of_the_function" ;;
*) TESTS+=" test_adapter_does_not_answer test_doorbell" ;;&
*:stock) TESTS+=" test_msix_table" ;;
esac
[ "$DEV" != rxe0 ] || DEVICES="edu0 edu1"
TESTS+=" test_unload"
# The device of most tests.
FIRST=${DEVICES%% *}

setup() {
	load_stack
	unload_modules
	insmod "$MODS/external/samples/mmio_client/$CLIENT.ko"
	client_bind
	load_core
	load_io_with mmio=any
	echo 1 >"$FUNCTION/enable"
	[ "$DEV" != rxe0 ] || load_adapter dynamic,revocable
}
before_test() { true; }

client_bind() {
	override "$BDF_A" $CLIENT
	eventually test -c "$NODE"
}

# bar_of MEMORY: sets bdf and bar, which have the names of the BAR in the guest and for the host.
bar_of() {
	case $1 in
	*"$BDF_A"*) bdf=$BDF_A bar=a ;;
	*"$BDF_B"*) bdf=$BDF_B bar=b ;;
	*) bdf=$BDF_SMALL bar=small ;;
	esac
}

# begin DEVICE MEMORY [BYTES]: the process user has an MR of LENGTH bytes in a mapping of 64 KiB, or
# BYTES, to which the adapter writes: the ConnectX all the time, edu at write_once. Sets device, bdf, bar.
begin() {
	device=$1
	bar_of "$2"
	if [ "$device" != "$DEV" ]; then
		adapter_start host "$device" host 0 $LENGTH
		from="$lkey $addr" seed=$RANDOM
	fi
	adapter_start user -x "$(gid_index)" -m "${3:-65536}" "$device" "$2" 4196 $LENGTH
	to="$lkey $addr"
	start_writer
	still_writes
}
start_writer() {
	[ "$device" != "$DEV" ] || { revocation_is_refused; adapter_say user writer; }
}
write_once() {
	adapter_say host fill $((++seed)) >/dev/null
	adapter_dma "$device" "copy $from $to $LENGTH"
}
still_writes() {
	local before
	before=$(host_sum "$bar")
	[ "$device" = "$DEV" ] || write_once
	eventually changes "$before" "$bar" || fail "the adapter does not write"
}

# denied: the adapter denies each access.
denied() {
	if [ "$device" = "$DEV" ]; then
		expect "error remote access error" adapter_say user write 9
	else
		expect EACCES write_once
	fi
}

# dead: at this moment no access reaches the BAR any more.
dead() {
	local before said
	before=$(host_sum "$bar")
	balanced
	no_key_reaches "$bdf"
	if [ "$device" = "$DEV" ]; then
		said=$(adapter_say user stop) || fail "$said"
		[ "${said#*status=}" = "remote access error" ] || fail "$said"
	fi
	denied
	expect "$before" host_sum "$bar"
}

# finish: the processes of begin end.
finish() {
	adapter_stop user
	[ "$device" = "$DEV" ] || adapter_stop host
	eventually balanced
}

test_driver_unmaps() {
	local device bdf bar from to seed each
	for each in $DEVICES; do
		begin "$each" "$NODE"
		unbind_in_time "$BDF_A"
		dead
		expect "error SIGBUS" adapter_say user check 1
		finish
		client_bind
	done
}

# A page of the MR is enough. What the same mapping has beside the MR is not.
test_process_unmaps() {
	local device bdf bar from to seed way
	for way in "unmap 8192 4096" "remap 8192 4096" "protect 8192 4096" "over host"; do
		echo "$way"
		begin "$FIRST" "$RESOURCE"
		adapter_say user unmap 57344 4096
		still_writes
		# shellcheck disable=SC2086 # words are meant
		adapter_say user $way
		dead
		# The memory is there again, at the same address.
		adapter_say user over same
		denied
		finish
	done
}

# Neither the fork nor the end of the child's address space.
test_fork() {
	local device bdf bar from to seed said
	begin "$FIRST" "$RESOURCE"
	adapter_say user fork
	still_writes
	expect "1 5 $LENGTH" in_use
	if [ "$device" = "$DEV" ]; then
		said=$(adapter_say user stop) || fail "$said"
		[ "${said#*status=}" = success ] || fail "$said"
	fi
	finish
}

# The new program keeps the descriptor of the device, and so the MR.
test_exec() {
	local device bdf bar from to seed before
	begin "$FIRST" "$NODE"
	adapter_say user exec
	eventually grep -qx sleep "/proc/$pid/comm"
	before=$(host_sum "$bar")
	balanced
	no_key_reaches "$bdf"
	[ "$device" = "$DEV" ] || expect EACCES write_once
	expect "$before" host_sum "$bar"
	adapter_kill user
	[ "$device" = "$DEV" ] || adapter_stop host
	eventually nothing_registered
}

# Each with a mapping of its own, all in the address space of the node. The debug kernel warns of DMA mappings
# that overlap, from the eighth on.
test_thousand_regions() {
	local pid count=1000
	[ "$KIND" != debug ] || count=7
	ulimit -n 8192
	launch hold -d "$FIRST" -n $count -m 4096 -l 4096 "$NODE"
	expect "$count $count $((count * 4096))" in_use
	unbind_in_time "$BDF_A"
	balanced
	kill_and_wait "$pid"
	client_bind
}

# Claimed, and not served: the driver's memory follows the rules of a BAR.
test_refused() {
	local line="io_peer_mem: $BDF_A: BAR 2: cannot register" errno='(EFAULT|Error\(14\))'
	refused "no struct pages" -m 65536 "$NODE"
	refused "$line [0-9]+ bytes: $errno .*not all of it .*and writable" -R -a lw -m 65536 "$NODE"
	refused "no struct pages" -R -a r -m 65536 "$NODE"
	refused "$line 65537 bytes: $errno .*not all of it" -m 65536 -l 65537 "$NODE"
	refused "$line 4097 bytes: $errno .*not all of it" -J -m 4096 -l 4097 "$NODE" "$RESOURCE"
	refused "$line 4097 bytes: $errno .*not all of it" -J -m 4096 -l 4097 "$NODE" host
}

# uio_bind BDF: to the driver that maps BARs below 4 GiB by remap_pfn_range(), and never unmaps them. Sets UIO
# to its node, where page N is the start of the Nth of these BARs.
uio_bind() {
	modprobe uio_pci_generic
	override "$1" uio_pci_generic
	UIO=/dev/$(ls "/sys/bus/pci/devices/$1/uio")
	eventually test -c "$UIO"
}

# forbidden ARGUMENTS...: EPERM, and no leak.
forbidden() {
	logs "io_peer_mem: .*: EPERM \\(doorbells of an RDMA device, or an interrupt table\\)" \
		expect "registration: EPERM" "$RDMA" reg "$@"
	balanced
}

# e1000e has its MSI-X table in the first page of its third BAR, and the PBA in the third page.
test_msix_table() {
	local UIO
	uio_bind "$BDF_NIC"
	[ "$DEV" != rxe0 ] || refused "no struct pages" -m 4096 "$UIO"
	forbidden -@ 8192 -m 4096 -l 4096 "$UIO"
	forbidden -@ 8192 -m 16384 -o 4096 -l 8192 "$UIO"
	[ "$DEV" != rxe0 ] || refused "no struct pages" -@ 8192 -m 16384 -o 4096 -l 4096 "$UIO"
	no_override "$BDF_NIC"
}

# The mapping stays when the driver goes, and the MR does not. The BAR is that of another edu device, in which
# the DMA finds a register that reads as the complement of what was written.
test_end_of_the_function() {
	local UIO bdf=${BDF_EDU[2]} end from to
	for end in unbind remove; do
		uio_bind "$bdf"
		adapter_start host edu0 host 0 4
		from="$lkey $addr"
		adapter_start user edu0 "$UIO" 4 4
		to="$lkey $addr"
		adapter_say host fill 71
		there_and_back
		must_fail adapter_say host check 71
		there_and_back
		adapter_say host check 71
		if [ $end = unbind ]; then
			no_override "$bdf"
		else
			echo 1 >"/sys/bus/pci/devices/$bdf/remove"
		fi
		balanced
		expect EACCES adapter_dma edu0 "copy $from $to 4"
		adapter_stop user host
	done
	echo 1 >/sys/bus/pci/rescan
	eventually test -e "/sys/bus/pci/devices/$bdf/driver"
}
there_and_back() {
	adapter_dma edu0 "copy $from $to 4"
	adapter_dma edu0 "copy $to $from 4"
}

# An unmapping waits for the adapter, but not for ever, and only once.
test_adapter_does_not_answer() {
	local took first name
	log_allow 'may still access [0-9]+ bytes'
	for name in one two; do
		adapter_start $name -x "$(gid_index)" "$DEV" "$RESOURCE" 0 8192
	done
	hold_umr
	took_ms adapter_say one unmap
	first=$took
	# The name of the RDMA device, or of its function.
	log_has "io_peer_mem: $BDF_SMALL: BAR 2: \($DEV\|$(mlx5_bdf)\) does not answer, and may still access 8192 bytes \
that were unmapped; reset the device"
	took_ms adapter_say two unmap
	note "the first munmap() took $first ms, the second one $took ms"
	[ "$first" -ge 9000 ]
	[ "$first" -lt 60000 ]
	[ "$took" -lt 9000 ]
	# It answers: the revocation ends without the process.
	release_umr
	eventually no_key_reaches "$BDF_SMALL"
	eventually balanced
	adapter_stop one two
	# The next region is waited for again.
	adapter_start one -x "$(gid_index)" "$DEV" "$RESOURCE" 0 8192
	adapter_say one unmap
	no_key_reaches "$BDF_SMALL"
	adapter_stop one
}

# A page in the BAR of the adapter itself, which its driver maps to processes.
test_doorbell() {
	logs "io_peer_mem: $(mlx5_bdf): BAR 0: cannot register 4096 bytes: .*\\(doorbells" \
		expect "error EPERM" adapter_start none -x "$(gid_index)" "$DEV" doorbell 0 4096
}

test_unload() {
	echo 0 >"$FUNCTION/enable"
	no_override "$BDF_A"
	eventually rmmod $CLIENT
	rebind "$BDF_A"
}
