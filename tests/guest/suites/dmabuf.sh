# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # pid, lkey, rkey are of tests/guest/adapter.sh
#
# Dma-bufs of other drivers that a process has mapped and registers by their addresses, with the stock
# mlx5 driver, which lets their exporters move and revoke them.

. ./steps.sh
. ./adapter.sh

SIZE=65536

setup() {
	load_stack
	load_bars
	load_exporter
	modprobe -a vgem virtio-gpu 2>/dev/null || true
}

# has EXPORTER: this kernel has it. The debug kernel has the test exporter alone.
has() {
	case $1 in
	udmabuf) [ -c /dev/udmabuf ] ;;
	heap:*) [ -c "/dev/dma_heap/${1#*:}" ] ;;
	drm:*) loaded "${1#*:}" ;;
	esac
}
# or_test EXPORTER: prints it, or the test exporter instead of it.
or_test() { if has "$1"; then echo "$1"; else echo test; fi; }

# mr NAME EXPORTER SHAPE OFFSET LENGTH [ACCESS]: a process with an MR in a mapping of SIZE bytes of a
# dma-buf (tests/guest/programs/memory.h), registered by its address.
mr() {
	adapter_start "$1" -x "$(gid_index)" -s "$3" -m $SIZE "$DEV" "mapped:$2" "$4" "$5" "${6:-all}"
}

# field NAME ANSWER: the value after NAME= in the answer of a process.
field() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" <<<"$2"; }

# state_of NAME FIELD: of the dma-buf of the test exporter.
state_of() { field "$2" "$(adapter_say "$1" state)"; }
state_is() { [ "$(state_of "$1" "$2")" = "$3" ]; }

# nothing_left: no dma-buf of any exporter.
nothing_left() {
	no_dma_buf_left
	must_fail grep -E 'udmabuf|system|vgem|virtio_gpu|peer_mem_test_exporter' /sys/kernel/debug/dma_buf/bufinfo
}

# stop_user: ends the last process with an MR.
stop_user() {
	adapter_stop user
	eventually nothing_left
}

# transfers NAME: RDMA writes, and the CPU reads, and the other way round.
transfers() {
	adapter_do "$1" "write 5" "check 5" "fill 6" "read 6"
}

# transfers_of EXPORTER SHAPE...: a shape with all of the dma-buf, and with ranges of it.
transfers_of() {
	local exporter=$1 shape range ranges=("12345 40001")
	shift
	[[ $exporter != test* ]] || ranges+=("100 5000" "4095 2" "$((SIZE - 1)) 1")
	for shape; do
		mr user "$exporter" "$shape" 0 $SIZE || fail "$exporter, $shape"
		transfers user
		for range in "${ranges[@]}"; do
			adapter_say user dereg
			adapter_say user reg "$range" || fail "$exporter, $shape"
			transfers user
		done
		adapter_stop user
	done
	eventually nothing_left
}

EXPORTERS='test whole part split pieces
udmabuf whole pieces
heap:system part split
drm:vgem whole split
drm:virtio_gpu whole split'
test_exporters() {
	local row
	while read -ra row; do
		if [ "${row[0]}" = test ] || has "${row[0]}"; then
			transfers_of "${row[@]}"
		else
			[ "$KIND" = debug ] || fail "this kernel has no ${row[0]}"
		fi
	done <<<"$EXPORTERS"
	# The offset of the VMA says nothing: the dma-buf must be mapped as a whole. Drivers with shmem ignore
	# the offset of mmap(2): by pieces the process has only the first page, many times.
	! has drm:vgem || expect "error EFAULT" mr none drm:vgem part 0 4096
}

# in_bar BDF: the exporter, with memory of a BAR of this PCI function, as that of a GPU.
in_bar() {
	local bus=${1#*:}
	local slot=${bus#*:}
	echo "test:function=$((16#${bus%%:*} << 8 | 16#${slot%.*} << 3 | 16#${slot#*.}))"
}
test_memory_of_a_bar() {
	local exporter before
	exporter=$(in_bar "$BDF_A")
	transfers_of "$exporter" whole
	mr user "$exporter" whole 100 60000
	before=$(host_sum a)
	adapter_do user "write 51" "look 51"
	[ "$(host_sum a)" != "$before" ] || fail "no byte behind the BAR has changed"
	adapter_do user move "read 51" revoke
	before=$(host_sum a)
	revocation_is_refused
	expect "error remote access error" adapter_say user write 52
	[ "$(host_sum a)" = "$before" ] || fail "bytes behind the BAR change after the revocation"
	state_is user late 0
	no_key_reaches "$BDF_A"
	stop_user
}

# Memory that its process has named, without a mapping, and where the driver could pin other memory.
named() {
	local name=$1
	shift
	adapter_start "$name" -x "$(gid_index)" -s "$2" -m $SIZE "$DEV" "named:$1" "${@:3}"
}
test_named_memory() {
	local shape
	for shape in none reserved; do
		named user test $shape 100 5000 all
		adapter_do user "write 17" "look 17" "read 17" move "write 18" "look 18"
		state_is user late 0
		adapter_stop user
	done
	for shape in whole part; do
		named user "$(or_test udmabuf)" $shape 4095 8193 all
		transfers user
		adapter_stop user
	done
	# DRM: the name says what the offset of the VMA does not.
	if has drm:vgem; then
		named user drm:vgem whole 0 $SIZE all
		transfers user
		adapter_stop user
	fi
	eventually nothing_left
}

# The driver pages such memory in through the dma-buf, as it cannot by the address.
test_on_demand() {
	mr user "$(or_test udmabuf)" part 100 5000 all,on-demand
	transfers user
	adapter_stop user
	named user test none 100 5000 all,on-demand
	adapter_do user "write 17" "look 17" "read 17" move "write 18" "look 18"
	adapter_stop user
	# Host memory is the driver's.
	adapter_start user -x "$(gid_index)" "$DEV" host 100 5000 all,on-demand
	transfers user
	balanced
	stop_user
}

# A name that is left when the addresses are used for other memory comes first, unless that looks
# ordinary: nothing else says which memory the process means.
test_addresses_of_an_old_name() {
	local other
	named user test whole 0 $SIZE all
	adapter_say user write 41
	again user over host
	adapter_do user "write 42" "check 42" "look 41"
	adapter_stop user
	for other in reserved test; do
		named user test whole 0 $SIZE all
		again user over $other
		adapter_do user "write 43" "look 43"
		again user unname
		adapter_do user "write 44" "check 44" "look 43"
		adapter_stop user
	done
	eventually nothing_left
}
# again NAME COMMAND...: before it registers the same range again.
again() {
	adapter_say "$1" dereg
	adapter_say "$@"
	adapter_set "$(adapter_say "$1" reg)"
}

# A write to an MR that is for reading.
read_only_is_refused() {
	connectx_refuses 'request refused: mkey * Permission'
	connectx_refuses 'fails with syndrome 0x13'
}

# As the pages of host memory: a device writes only where the process may.
test_read_only_mapping() {
	local shape
	for shape in read-only read-tail; do
		logs_one "$DEV: .*read" expect "error EACCES" mr none test "$shape" 0 $SIZE
		expect "error EACCES" mr none test "$shape" $((SIZE - 1)) 1 local-write
		mr user test "$shape" 0 $SIZE remote-read
		read_only_is_refused
		expect "error remote access error" adapter_say user write 1
		adapter_stop user
	done
	# Only the range counts.
	mr user test read-tail 0 $((SIZE - 4096))
	transfers user
	stop_user
}

test_ranges_that_are_no_dma_buf() {
	local shape
	for shape in swapped two hole tail head guarded; do
		expect "error EFAULT" mr none test "$shape" 0 $SIZE || fail "$shape"
	done
	expect "error EFAULT" mr none "$(or_test udmabuf)" two 100 $((SIZE - 100))
	! has heap:system || expect "error EFAULT" mr none heap:system private 0 $SIZE
	# Where two meet.
	logs_one "$DEV: $((SIZE / 2)) of $SIZE bytes are of the dma-buf peer_mem_test_exporter [0-9]+, then comes peer_mem_test_exporter [0-9]+: " \
		expect "error EFAULT" mr none test two 0 $SIZE
	rejected '	(EFAULT|Error\(14\))	the range is not mapped .*: dma-buf peer_mem_test_exporter [0-9]+ before 0x[0-9a-f]+000, peer_mem_test_exporter [0-9]+ from there on$'
	# The parts that are one.
	for shape in swapped hole; do
		mr user test "$shape" 4096 8192
		transfers user
		adapter_stop user
	done
	eventually nothing_left
}

# Neither the mapping nor a descriptor is needed any more.
test_mr_holds_the_dma_buf() {
	mr user test whole 100 50000
	adapter_say user unmap
	state_is user exists 1
	adapter_do user "write 7" "look 7" "read 7" move "read 7" dereg
	eventually state_is user exists 0
	stop_user
}

# Each write goes to where the memory is, whatever the exporter does meanwhile.
test_moves_under_a_writer() {
	local i said moves=${ROUNDS:-25}
	mr user test whole 100 60000
	adapter_say user writer
	for ((i = 0; i < moves; i++)); do
		adapter_say user move
		nap 0.0$((i % 5))
	done
	said=$(adapter_say user stop) || fail "$said"
	[ "${said#*status=}" = success ] || fail "$said"
	[ "$(state_of user moves)" = "$moves" ]
	state_is user late 0
	note "$(field writes "$said") writes during $moves moves, no write lost or late"
	stop_user
}

test_revoked_under_a_writer() {
	local said before
	mr user test whole 100 60000
	revocation_is_refused
	adapter_do user writer revoke
	before=$(adapter_say user sum)
	said=$(adapter_say user stop) || fail "$said"
	[ "${said#*status=}" = "remote access error" ] || fail "$said"
	expect "error remote access error" adapter_say user write 1
	expect "error remote access error" adapter_say user read 1
	expect "$before" adapter_say user sum
	[ "$(field mapped "$(adapter_say user state)")" = 0 ]
	expect ok adapter_say user dereg
	# A revoked dma-buf cannot be registered again.
	expect "error ENODEV" adapter_say user reg
	stop_user
	note "$(field writes "$said") writes before the revocation, then remote access errors"
}

# What the exporter says is what the application gets, but for an errno that user space does not know.
test_errors_of_the_exporter() {
	local errno
	for errno in "12 ENOMEM" "5 EIO" "524 EOPNOTSUPP"; do
		expect "error ${errno#* }" mr none "test:map-error=${errno% *}" whole 0 $SIZE
		expect "error ${errno#* }" mr none "test:attach-error=${errno% *}" whole 0 $SIZE
	done
	mr user test whole 0 $SIZE
	transfers user
	# Not mapped again after a move, and then again: another access succeeds.
	revocation_is_refused
	adapter_do user "set map-error=12" move
	expect "error remote access error" adapter_say user write 31
	adapter_do user "set map-error=0" "write 32" "look 32"
	state_is user late 0
	adapter_stop user
	# A dynamic importer does not pin.
	mr user test:pin-error=95 whole 0 $SIZE
	transfers user
	state_is user pinned 0
	stop_user
}

test_reregistration() {
	mr user test whole 100 5000
	adapter_set "$(adapter_say user rereg start 4196 50001)"
	transfers user
	adapter_set "$(adapter_say user rereg pd)"
	transfers user
	adapter_say user move
	transfers user
	adapter_set "$(adapter_say user rereg access remote-read)"
	read_only_is_refused
	expect "error remote access error" adapter_say user write 1
	adapter_say user read 6
	adapter_set "$(adapter_say user rereg start 0 8192 access all pd)"
	transfers user
	[ "$(state_of user attached)" = 1 ]
	state_is user late 0
	# To host memory: the dma-buf is no longer used.
	adapter_say user rereg host 0 8192
	eventually state_is user attached 0
	stop_user
}

test_killed_process() {
	mr one test whole 100 60000
	adapter_say one writer
	mr two "$(or_test udmabuf)" split 0 $SIZE
	mr three "$(or_test drm:vgem)" whole 1 $((SIZE - 1))
	adapter_kill one two three
	eventually nothing_registered
	eventually mlx5_nothing_left
	eventually nothing_left
}

test_device_goes() {
	mr one test whole 100 60000
	adapter_say one writer
	mr two "$(or_test udmabuf)" whole 0 $SIZE
	remove_device
	state_is one attached 0
	state_is one late 0
	adapter_say one move
	adapter_kill one two
	add_device
	eventually nothing_left
	mr user test whole 100 60000
	transfers user
	adapter_stop user
}

# Queues, doorbell records and DEVX umems are pinned.
test_queues() {
	expect "umem: ok" queues umem -o 100 -l 5000 mapped:test
	queues verbs -n 20 mapped:test | grep '^20 rounds'
	eventually mlx5_nothing_left
	# The adapter would write through a descriptor that is for reading.
	if has heap:system; then
		logs_one "$DEV: .*read-only" expect "umem: error EACCES" queues umem named:heap-read-only:system
	fi
	eventually nothing_left
}
