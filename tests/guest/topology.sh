# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # lkey and addr are set by adapter.sh
#
# Shared by the suites of the topologies (scripts/topology, Documentation/developing.rst).
# Those suites list their tests in TESTS, and in NEAR and NEAR_TOO the PCI functions of the
# adapters that reach the peers.

. ./steps.sh
. ./adapter.sh

SIZE_A=$((256 << 20))
SIZE_B=$((32 << 20))
# Both ends are inside a page; the length is no multiple of the device's buffer.
OFFSET=12345
LENGTH=20001

# edu0, edu1, ... are numbered in the order of discovery, as are the import modes.
setup() {
	modprobe ib_uverbs
	load_core
	load_bars
	load_adapter dynamic,revocable,dynamic
}

# adapter_at BDF: the RDMA device of that PCI function.
adapter_at() {
	local device
	for device in /sys/bus/pci/devices/"$1"/infiniband/*; do echo "${device##*/}"; done
}

# in_a NAME ADAPTER OFFSET LENGTH, in_b: an MR in a mapping of the whole BAR, so that
# offsets are those in the BAR.
in_a() { adapter_start "$1" -m $SIZE_A "$2" "$BAR_A" "$3" "$4"; }
in_b() { adapter_start "$1" -m $SIZE_B "$2" "$BAR_B" "$3" "$4"; }

# common_port BDF BDF: the lowest bridge above both; fails if there is no such bridge.
common_port() {
	local above other
	above=$(realpath "/sys/bus/pci/devices/$1")
	other=$(realpath "/sys/bus/pci/devices/$2")
	while above=${above%/*} && [[ ${above##*/} = *:*:*.* ]]; do
		case $other in "$above"/*) echo "${above##*/}"; return 0 ;; esac
	done
	return 1
}

# bus_address BDF: the address in its BAR 2 register.
bus_address() {
	local low high
	read -r low high < <(od -An -tu4 -j24 -N8 "/sys/bus/pci/devices/$1/config")
	echo $(((high << 32 | low) & ~15))
}

# answer_of_p2pdma COMMAND...: the map type that p2pdma finds for the peer and the adapter
# when the command maps memory of the one for the other.
answer_of_p2pdma() {
	local type
	echo 'r:peer_map_type pci_p2pdma_map_type type=$retval:u32' >"$TRACING/kprobe_events"
	echo 1 >"$TRACING/events/kprobes/peer_map_type/enable"
	"$@" >/tmp/mapped 2>&1 || true
	echo 0 >"$TRACING/events/kprobes/peer_map_type/enable"
	type=$(sed -n 's/.*peer_map_type: .* type=\([0-9]*\)$/\1/p' "$TRACING/trace" | tail -n 1)
	echo >"$TRACING/kprobe_events"
	# enum pci_p2pdma_map_type
	case $type in
	2) echo "not supported" ;;
	3) echo "bus address" ;;
	4) echo "through the host bridge" ;;
	*) echo "type ${type:-none}"; cat /tmp/mapped ;;
	esac
}
register_and_stop() {
	# In a condition, where set -e does not hold.
	adapter_start a "$1" "$BAR_A" 0 65536 || return
	adapter_stop a
}

# p2pdma_says ANSWER: for both adapters and peers.
p2pdma_says() {
	local bdf
	for bdf in "$NEAR" "$NEAR_TOO"; do
		expect "$1" answer_of_p2pdma register_and_stop "$(adapter_at "$bdf")"
	done
}

test_bus_addresses() {
	local dma
	in_a a "$(adapter_at "$NEAR")" $((3 * 4096)) $((5 * 65536))
	dma=$(adapter_mr "$(adapter_at "$NEAR")" "$lkey" dma)
	[ $((${dma%%+*})) = $(($(bus_address "$BDF_A") + 3 * 4096)) ] || fail "$dma"
	adapter_stop a
}

test_mr_of_the_whole_bar() {
	local device end
	device=$(adapter_at "$NEAR")
	in_a a "$device" 0 $SIZE_A
	expect "1 $((SIZE_A / PAGE)) $SIZE_A" in_use
	end="$lkey $((addr + SIZE_A - 999))"
	adapter_start h "$device" host 0 999
	adapter_say h fill 31
	adapter_dma "$device" "copy $lkey $addr $end 999"
	ask_host pattern a $((SIZE_A - 999)) 999 31
	adapter_stop h a
	eventually balanced
}

# A process in a memory cgroup registers until the limit, which is its parent's, stops it.
test_memory_cgroup() {
	local group=/tmp/cgroup/peer limit=$((16 << 20)) made peak many go
	make_cgroup peer
	echo $limit >$group/memory.max
	echo +memory >$group/cgroup.subtree_control
	mkdir $group/container
	mkfifo /tmp/go
	exec {go}<>/tmp/go
	"$RDMA" many -d "$(adapter_at "$NEAR")" -n 100000 -m 4096 "$BAR_A" <&"$go" >/tmp/many 2>&1 {go}>&- &
	many=$!
	wait_line /tmp/many '^begin'
	echo $many >$group/container/cgroup.procs
	echo go >&"$go"
	wait_line /tmp/many '^registered'
	cat /tmp/many $group/memory.peak $group/memory.events
	made=$(sed -n 's/^registered \([0-9]*\): ENOMEM$/\1/p' /tmp/many)
	peak=$(cat $group/memory.peak)
	[ "$made" -gt 1000 ]
	[ "$peak" -le $limit ]
	# What the modules allocate for an MR is charged: without that of io_peer_mem it is 880 bytes,
	# without any of it 256.
	[ $((peak / made)) -ge 1000 ]
	grep -x 'oom_kill 0' $group/memory.events
	expect "$made" eval 'in_use | cut -d" " -f1'
	# Others register as before.
	adapter_start a "$(adapter_at "$NEAR")" "$BAR_B" 0 65536
	adapter_stop a
	note "a cgroup of $limit bytes: ENOMEM after $made registrations, $((peak / made)) bytes for each"
	kill_and_wait -9 $many
	exec {go}>&-
	eventually balanced
	eventually rmdir $group/container $group
	umount -l /tmp/cgroup
}

# No CPU touches the second BAR: the adapter wrote what is in it.
test_from_bar_to_bar() {
	local device from
	device=$(adapter_at "$NEAR")
	in_a a "$device" $OFFSET $LENGTH
	from="$lkey $addr"
	adapter_say a fill 33
	in_b b "$device" $((OFFSET + 2)) $LENGTH
	adapter_dma "$device" "copy $from $lkey $addr $LENGTH"
	ask_host pattern b $((OFFSET + 2)) $LENGTH 33 64
	adapter_stop b a
}

# The peer is unbound: no access of an adapter reaches it any more.
test_revoked() {
	local near too before host bar other_host other_bar
	near=$(adapter_at "$NEAR") too=$(adapter_at "$NEAR_TOO")
	adapter_start h "$near" host 0 $LENGTH
	host="$lkey $addr"
	adapter_say h fill 36
	adapter_start a "$near" "$BAR_A" $OFFSET $LENGTH
	bar="$lkey $addr"
	adapter_start g "$too" host 0 $LENGTH
	other_host="$lkey $addr"
	adapter_start c "$too" "$BAR_A" $OFFSET $LENGTH
	other_bar="$lkey $addr"
	before=$(sum)
	adapter_dma "$near" "copy $host $bar $LENGTH"
	[ "$(sum)" != "$before" ] || fail "the adapter does not write"
	before=$(sum)
	unbind_in_time "$BDF_A"
	expect EACCES adapter_dma "$near" "copy $host $bar $LENGTH"
	expect EACCES adapter_dma "$near" "copy $bar $host $LENGTH"
	expect EACCES adapter_dma "$too" "copy $other_host $other_bar $LENGTH"
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the unbind"
	expect revoked adapter_mr "$near" "${bar% *}" state
	adapter_stop a c h g
	eventually balanced
	rebind "$BDF_A"
}

# refused ADAPTER: it cannot reach the peer. The process gets an error, and the log names
# both functions and the reason.
refused() {
	local bdf
	bdf=$(adapter_bdf "$1")
	log_step "$bdf"
	expect "error EREMOTEIO" adapter_start a "$1" "$BAR_A" 0 65536
	one_line "io_peer_mem $BDF_A: BAR 2: cannot be mapped for $bdf: EREMOTEIO \(no bridge is above both, .*\)"
	rejected "	$1	io_peer_mem	EREMOTEIO	the memory could not be registered$"
	expect "" adapter_mrs "$1"
	balanced
}
