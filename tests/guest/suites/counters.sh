# SPDX-License-Identifier: GPL-2.0
#
# The counters in sysfs: exact while MRs exist, balanced after their release. The list of live
# regions in debugfs, and iopm regions. The last revocations. Tracepoints.

. ./steps.sh

test_during() {
	local pid mrs before in_mrs
	mrs=$(counter num_alloc_mrs)
	before=$(counter num_dereg_pages)
	# Three MRs that begin and end inside pages.
	in_mrs=$((3 * $(pages 100 20000)))
	launch hold -n 3 -o 100 -l 20000 "$BAR_A"
	expect "3 $in_mrs 60000" in_use
	note "with three MRs: $(in_use)"
	kill_and_wait "$pid"
	eventually balanced
	note "after: $(in_use); in total $(counter num_alloc_mrs) MRs, $(counter num_reg_pages) pages"
	expect $((mrs + 3)) counter num_alloc_mrs
	expect $((before + in_mrs)) counter num_dereg_pages
}

all_in_state() { [ "$(region_rows "$1" '{ print $10 }' | sort -u)" = "$2" ]; }
unlisted() { [ -z "$(region_rows "$1")" ]; }

# By iproute2, which asks ib_core.
lkeys() { rdma -d resource show mr dev "$DEV" | sed -nE "s/.* lkey (0x[0-9a-f]+) .* pid $1 .*/\1/p" | sort; }

# Two processes have MRs in two BARs; one BAR is unbound.
test_regions() {
	local pid one two at revoked callbacks
	expect "pid	process	kind	client	device	lkey	address	length	age	state" cat "$REGIONS"
	start one hold -n 2 -o 100 -l 20000 "$BAR_A"
	one=$pid
	start two hold -l 4096 "$BAR_B"
	two=$pid
	wait_line /tmp/one '^holding'
	wait_line /tmp/two '^holding'
	cat "$REGIONS"
	note "$(region_rows "$two")"
	expect 4 eval "wc -l <$REGIONS"
	expect "peer_rdma mr io_peer_mem $DEV 20000 live" eval \
		"region_rows $one '{ print \$2, \$3, \$4, \$5, \$8, \$10 }' | uniq"
	expect "peer_rdma mr io_peer_mem $DEV 4096 live" region_rows "$two" '{ print $2, $3, $4, $5, $8, $10 }'
	lkeys "$one" >/tmp/lkeys
	expect 2 eval 'grep -c ^0x /tmp/lkeys'
	expect "$(cat /tmp/lkeys)" eval "region_rows $one '{ print \$6 }' | sort"
	# Each MR begins at byte 100 of a mapping of the BAR.
	for at in $(region_rows "$one" '{ print $7 }'); do
		grep -E "^$(printf %x $((at - 100)))-.* $BAR_A$" "/proc/$one/maps"
	done
	expect 400 stat -c %a "$REGIONS"
	refuses 'Permission denied' setpriv --reuid 65534 --clear-groups -- cat "$REGIONS"

	revoked=$(($(counter num_revocations) + 2)) callbacks=$(counter num_free_callbacks)
	unbind_in_time "$BDF_A"
	expect "$revoked" counter num_revocations
	expect $((callbacks + 2)) counter num_free_callbacks
	expect 0 counter num_failed_fences
	expect "revoked revoked" eval "region_rows $one '{ print \$10 }' | xargs"
	all_in_state "$two" live
	cat /sys/kernel/debug/ib_peer_mem/revocations
	expect "$DEV 2 40000 the client has invalidated the memory" lost "$one"
	expect "" lost "$two"
	"$IOPM" regions | tee /tmp/regions
	expect 2 grep -cE "^ *$one +peer_rdma +mr +io_peer_mem +$DEV +0x[0-9a-f]+ +0x[0-9a-f]+ +20000 B .* revoked$" /tmp/regions
	"$IOPM" metrics | grep -x "ib_peer_mem_revocations_total{client=\"io_peer_mem\"} $revoked"
	kill_and_wait "$one"
	eventually unlisted "$one"
	expect 1 eval "region_rows $two | wc -l"
	kill_and_wait "$two"
	eventually unlisted "$two"
	rebind "$BDF_A"
}

# export_of FILE: the errno of an export of a page of the file by /dev/ib_peer_mem.
export_of() {
	python3 - "$1" <<-'PYTHON'
		from calls import *
		print(answer(export, mapped(os.open(sys.argv[1], os.O_RDWR), PAGE), PAGE))
	PYTHON
}

# While the client is drained its memory is refused, and host memory is not; iopm drain says who has
# an MR. A process keeps the MR that it has.
test_drain_of_a_client() {
	local pid rc=0
	launch hold -l 20000 "$BAR_A"
	"$IOPM" drain --timeout 1 io_peer_mem >/tmp/drain || rc=$?
	cat /tmp/drain
	[ $rc = 3 ]
	expect 1 grep -cE "^  $pid peer_rdma: 20000 B of $DEV, key 0x[0-9a-f]+, for .* \(live\)$" /tmp/drain
	expect 1 cat "$PEERS/io_peer_mem/drain"
	expect "registration: EBUSY" "$RDMA" reg "$BAR_A"
	expect "registration: EBUSY" "$RDMA" reg "$BAR_B"
	expect EBUSY export_of "$BAR_A"
	cut -f 6- /sys/kernel/debug/ib_peer_mem/rejections | tee /tmp/rejections
	grep -E "^$DEV	io_peer_mem	[^	]+	the client is being drained$" /tmp/rejections
	"$RDMA" write host
	expect "1 $(pages 0 20000) 20000" in_use
	( nap 2; kill "$pid" ) &
	"$IOPM" drain io_peer_mem
	wait "$pid" || true
	balanced
	refuses 'only root may drain' setpriv --reuid 65534 --clear-groups -- "$IOPM" drain --end io_peer_mem
	"$IOPM" drain --end io_peer_mem
	expect ok export_of "$BAR_A"
	"$RDMA" write "$BAR_A"
	refuses 'Invalid argument' eval "echo 2 >$PEERS/io_peer_mem/drain"
	expect 0 cat "$PEERS/io_peer_mem/drain"
}

# The other function stays usable. A revocation, and a new binding, ends the drain.
test_drain_of_a_function() {
	local pid one two rc=0 files=/sys/bus/pci/devices/$BDF_A/io_peer_mem
	start one hold -n 2 -l 20000 "$BAR_A"
	one=$pid
	start two hold -l 4096 "$BAR_B"
	two=$pid
	wait_line /tmp/one '^holding'
	wait_line /tmp/two '^holding'
	expect 2 cat "$files/mrs"
	"$IOPM" drain --timeout 0 "$BDF_A" >/tmp/drain || rc=$?
	cat /tmp/drain
	[ $rc = 3 ]
	expect 2 grep -cE "^  $one peer_rdma: 20000 B of $DEV, key 0x[0-9a-f]+, for .* \(live\)$" /tmp/drain
	must_fail grep -E "^  $two|not known" /tmp/drain
	logs 'BAR 2: cannot register .* \(root has stopped registrations of this function: iopm drain\)' \
		expect "registration: EBUSY" "$RDMA" reg "$BAR_A"
	"$RDMA" write "$BAR_B"
	kill_and_wait "$one"
	"$IOPM" drain "$BDF_A"
	expect 0 cat "$files/mrs"
	"$IOPM" drain --end "$BDF_A"
	"$RDMA" write "$BAR_A"
	"$IOPM" drain "$BDF_A"
	unbind_in_time "$BDF_A"
	[ ! -e "$files" ]
	refuses 'is not bound to io_peer_mem' "$IOPM" drain "$BDF_A"
	rebind "$BDF_A"
	expect 0 cat "$files/drain"
	"$RDMA" write "$BAR_A"
	kill_and_wait "$two"
}

# traced EVENT: the trace has the event once, with the facts of the MR and a duration.
EVENTS=/sys/kernel/tracing/instances/events
traced() {
	expect 1 grep -cE " peer_mem_$1: $facts duration_ns=[1-9][0-9]* error=0$" $EVENTS/trace
	expect 1 grep -c " peer_mem_$1: " $EVENTS/trace
}

# As in operations.rst.
HISTOGRAM='hist:keys=device,duration_ns.log2'
test_tracepoints() {
	local pid facts
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
	mkdir $EVENTS
	# The debug kernel has no such triggers.
	[ "$KIND" = debug ] || echo "$HISTOGRAM" >$EVENTS/events/ib_peer_mem/peer_mem_fence/trigger
	echo 1 >$EVENTS/events/ib_peer_mem/enable
	start one hold -o 100 -l 20000 "$BAR_A"
	wait_line /tmp/one '^holding'
	facts="client=io_peer_mem device=$DEV lkey=$(region_rows "$pid" '{ print $6 " addr=" $7 }') length=20000 pid=$pid"
	grep -E "lkey=0x[0-9a-f]+ addr=0x[0-9a-f]+ " <<<"$facts"
	traced register
	must_fail grep -E 'peer_mem_(fence|revoke|invalidate|deregister|reject)' $EVENTS/trace
	unbind_in_time "$BDF_A"
	cat $EVENTS/trace
	traced fence
	traced revoke
	traced invalidate
	note "$(grep -oE 'peer_mem_revoke: .*' $EVENTS/trace)"
	if [ "$KIND" != debug ]; then
		cat $EVENTS/events/ib_peer_mem/peer_mem_fence/hist
		grep -E "device: $DEV .*duration_ns: ~ 2\^[0-9]+ .*hitcount: +1\$" $EVENTS/events/ib_peer_mem/peer_mem_fence/hist
		echo "!$HISTOGRAM" >$EVENTS/events/ib_peer_mem/peer_mem_fence/trigger
	fi
	must_fail grep peer_mem_deregister $EVENTS/trace
	kill_and_wait "$pid"
	eventually unlisted "$pid"
	traced deregister
	rebind "$BDF_A"
	expect "registration: EFAULT" "$RDMA" reg -M -@ 0x7e0000000000 -l 4096 host
	expect 1 grep -cE " peer_mem_reject: client=- device=$DEV addr=0x7e0000000000 length=4096 pid=[1-9][0-9]* error=-14 cause=\"no client claims the memory\"$" $EVENTS/trace
	echo >$EVENTS/trace
	"$RDMA" write host
	must_fail grep peer_mem_ $EVENTS/trace
	echo 0 >$EVENTS/events/ib_peer_mem/enable
	"$RDMA" write "$BAR_A"
	must_fail grep peer_mem_ $EVENTS/trace
	rmdir $EVENTS
}
