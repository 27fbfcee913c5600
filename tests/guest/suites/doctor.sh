# SPDX-License-Identifier: GPL-2.0
#
# The program iopm with what a kernel has: doctor, status, topology, test, candidates, bind and unbind. The
# debugfs file rejections. Other machines, what applications conclude, and what iopm prints, are in
# tests/userspace.

. ./steps.sh

DOCTOR=/tmp/doctor
REJECTIONS=/sys/kernel/debug/ib_peer_mem/rejections
REPLICA=$MODS/external/tests/symbols/replica.ko

# The driver of the RDMA device, how its MRs are served, and how it reaches memory.
SERVED=(rdma_rxe "fast registration") ROUTE='CPU copies'
[ "$DEV" = rxe0 ] || SERVED=(mlx5_ib dma-buf) ROUTE='[0-9]+ (bus address|host bridge)'

setup() {
	load_stack
	load_ssd
	load_bars
}

# The DMA of the emulated ConnectX does not reach the buffer of the SSD: without_ssd is for transfers
# into all memory.
load_ssd() {
	modprobe nvme
	eventually test -e "/sys/bus/pci/devices/$BDF_SSD/p2pmem/allocate"
}
reaches_ssd() { [ "$DEV" = rxe0 ]; }
without_ssd() { reaches_ssd || modprobe -r nvme; }
before_test() { reaches_ssd || load_ssd; }

# doctor ARGUMENTS...: it finds no failure; its report is in $DOCTOR.
doctor() { "$IOPM" doctor "$@" | tee $DOCTOR; }
# says STATUS PATTERN: the report has a check with this result that matches.
says() { grep -E "^  $(printf '%-4s' "$1")  .*$2" $DOCTOR; }

test_all_is_well() {
	doctor
	says ok 'Linux .* runs ib_peer_mem'
	says 'ok|warn' 'ib_peer_mem is loaded'
	says ok "$DEV: port 1 is active"
	if [ "$DEV" = rxe0 ]; then
		says ok "$DEV \(rdma_rxe\): hooked, served by fast registration, can fence: yes"
		says ok "$DEV: a software device"
	else
		says ok "$DEV \(mlx5_ib\): hooked, served by dma-buf, can fence: (yes|not seen yet)"
		says ok "$DEV, $BDF_A/bar2: distance [0-9]+ (bus address|host bridge)"
	fi
	says ok 'io_peer_mem: 0 MRs'
	says ok "$BDF_A/bar2: a BAR of io_peer_mem \(Red Hat, Inc"
	says ok "$BDF_SSD: 64 MiB of peer-to-peer memory of nvme"
	says ok "this user may open $BAR_A"
	must_fail grep FAIL $DOCTOR
	note "$(tail -n 1 $DOCTOR)"
}

# RDMA into each memory, also that of the SSD, with the bytes compared; all of it is free again.
test_transfers() {
	local memory all=("$BDF_A/bar2" "$BDF_B/bar2")
	! reaches_ssd || all+=("$BDF_SSD")
	without_ssd
	doctor --test "$DEV"
	for memory in "${all[@]}"; do
		says ok "$DEV, $memory: 64 KiB written and read, bytes compared"
	done
	balanced
	"$IOPM" test | tee /tmp/test
	expect ${#all[@]} grep -c '^ok ' /tmp/test
	"$IOPM" test "$DEV" "$BAR_A" | grep -E "^ok +$DEV  $BAR_A: "
	balanced
}

# So that bytes which an earlier test has left in the same place are not taken for transferred ones.
test_transfers_of_other_bytes() {
	local before
	"$IOPM" test "$DEV" "$BAR_A"
	before=$(host_sum a)
	"$IOPM" test "$DEV" "$BAR_A"
	[ "$(host_sum a)" != "$before" ] || fail "the same bytes twice"
	refuses 'would overwrite it' "$IOPM" test "$DEV" "/sys/bus/pci/devices/$BDF_A/resource2"
}

test_status_and_topology() {
	local function
	# Nothing for a software device.
	function=$([ "$DEV" = rxe0 ] || mlx5_bdf)
	"$IOPM" status | tee /tmp/status
	grep -E '^ib_peer_mem +loaded' /tmp/status
	grep -E "^$DEV +${function:-software} +${SERVED[0]} +${SERVED[1]} +yes" /tmp/status
	grep -E '^io_peer_mem +.* 0 +0 B +[1-9][0-9]* +0$' /tmp/status
	"$IOPM" topology | tee /tmp/topology
	grep -E "^$BDF_A/bar2 +$ROUTE +io_peer_mem$" /tmp/topology
	grep -E "^$BDF_SSD +$ROUTE +peer-to-peer memory$" /tmp/topology
	"$IOPM" nearest "$BDF_SSD" | sed -n 2p | grep -E "^0 +/sys/.*/$BDF_SSD/p2pmem/allocate$"
}

# Memory that no client claims, and memory of a client that refuses it.
test_rejections() {
	local before
	before=$(wc -l <$REJECTIONS)
	"$RDMA" reg -M -@ 0x7e0000000000 -l 4096 host &
	wait $!
	expect $((before + 1)) eval "wc -l <$REJECTIONS"
	# A thread has registered; the list has the process.
	rejected "^[0-9.]+	$!	peer_rdma	0x7e0000000000	4096	$DEV	-	EFAULT	no client claims the memory$"
	# Mapped read-only, to be written.
	expect "registration: EFAULT" "$RDMA" reg -R -a lw "$BAR_A"
	rejected "	peer_rdma	.*	$DEV	io_peer_mem	EFAULT	the client could not pin the memory$"
	doctor
	says warn "s ago: peer_rdma \(pid [0-9]+\), .* device $DEV, client io_peer_mem: the client could not pin the memory \(EFAULT\)"
	refuses 'Permission denied' setpriv --reuid 65534 --clear-groups -- cat $REJECTIONS
}

# as_user COMMAND...: as a user without any rights.
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }

test_without_privileges() {
	chmod 660 "$BAR_A"
	as_user "$IOPM" doctor >$DOCTOR || true
	cat $DOCTOR
	says '\?' "$DEV: only root can read its backend"
	says '\?' 'only root can read the last rejections'
	says FAIL "this user may not open $BAR_A"
	as_user "$IOPM" status | grep -E "^$DEV .*root only"
	as_user "$IOPM" candidates | grep "^$BDF_A"
	refuses 'Permission denied' as_user "$IOPM" unbind "$BDF_A"
	refuses 'Permission denied' as_user "$IOPM" list
}

test_candidates_bind_and_unbind() {
	"$IOPM" candidates | tee /tmp/candidates
	grep -E "^$BDF_A +2 +64 MiB +io_peer_mem +bound$" /tmp/candidates
	grep -E "^$BDF_SMALL +2 +1 MiB +none +no: not in whole sections" /tmp/candidates
	"$IOPM" unbind "$BDF_B"
	[ ! -e "$BAR_B" ]
	"$IOPM" candidates | grep -E "^$BDF_B +2 +32 MiB +none +yes: iopm bind $BDF_B$"
	"$IOPM" bind "$BDF_B"
	eventually test -c "$BAR_B"
	expect io_peer_mem cat "/sys/bus/pci/devices/$BDF_B/driver_override"
	expect "$BDF_B is bound already" "$IOPM" bind "$BDF_B"
	"$IOPM" unbind "$BDF_B"
	"$IOPM" bind --bar 2 "$BDF_B"
	eventually test -c "$BAR_B"
	expect "" cat /sys/module/io_peer_mem/parameters/bars
	# As load_io has left it.
	"$IOPM" unbind "$BDF_B"
	rebind "$BDF_B"
}

test_bind_refuses_what_is_in_use() {
	local net
	modprobe e1000e
	eventually test -e "/sys/bus/pci/devices/$BDF_NIC/net"
	net=$(ls "/sys/bus/pci/devices/$BDF_NIC/net")
	refuses 'belongs to the driver e1000e' "$IOPM" bind --bar 0 "$BDF_NIC"
	ip link set "$net" up
	refuses "in use: net $net" "$IOPM" bind --bar 0 --force "$BDF_NIC"
	ip link set "$net" down
	refuses 'BAR 0 of .* is not memory in whole sections' "$IOPM" bind --bar 0 --force "$BDF_NIC"
	expect e1000e basename "$(readlink "/sys/bus/pci/devices/$BDF_NIC/driver")"
	rmmod e1000e
	refuses 'no BAR that is memory by its class' "$IOPM" bind "$BDF_NIC"
	refuses 'is a bridge' "$IOPM" bind 0000:00:00.0
	refuses 'no PCI function 0000:fe:1f.7' "$IOPM" bind fe:1f.7
	refuses 'is not bound to io_peer_mem' "$IOPM" unbind "$BDF_NIC"
	refuses 'is no address' "$IOPM" unbind rxe0
	refuses '^Usage' "$IOPM" bind --bar 9 "$BDF_A"
}

# The memory of an SSD is enough: no BAR is bound to io_peer_mem.
test_memory_of_an_ssd_alone() {
	unload_io
	doctor
	says warn "$BDF_SSD: no client serves it"
	grep -q '^        fix: modprobe io_peer_mem p2pmem=1$' $DOCTOR
	insmod "$MODS/io_peer_mem.ko"
	doctor
	grep -q '^        fix: echo 1 >/sys/module/io_peer_mem/parameters/p2pmem$' $DOCTOR
	echo 1 >/sys/module/io_peer_mem/parameters/p2pmem
	if reaches_ssd; then
		doctor --test
		says ok "$DEV, $BDF_SSD: 64 KiB written and read"
		expect 1 grep -c 'bytes compared' $DOCTOR
	else
		doctor
	fi
	"$IOPM" list | grep -E "^/sys/.*/$BDF_SSD/p2pmem/allocate +64 MiB +[0-9]+ [KM]iB .*driver nvme$"
	unload_io
	load_bars
}

# modules LOADED...: of io_peer_mem and ib_peer_mem, these are loaded.
modules() { expect "$*" eval "for i in io_peer_mem ib_peer_mem; do ! loaded \$i || echo \$i; done | paste -sd ' '"; }

# The last function takes the modules with it, unless something needs them.
test_unbind_unloads_the_modules() {
	local fd
	unload_modules
	load_core
	insmod "$MODS/io_peer_mem.ko"
	"$IOPM" bind "$BDF_A"
	"$IOPM" bind "$BDF_B"
	"$IOPM" unbind "$BDF_A"
	modules io_peer_mem ib_peer_mem
	exec {fd}<>"$BAR_B"
	"$IOPM" unbind "$BDF_B" 2>/tmp/unbind
	modules io_peer_mem ib_peer_mem
	expect "" cat /tmp/unbind
	exec {fd}>&-
	echo 1 >/sys/module/io_peer_mem/parameters/p2pmem
	"$IOPM" bind "$BDF_B"
	"$IOPM" unbind "$BDF_B"
	modules io_peer_mem ib_peer_mem
	echo 0 >/sys/module/io_peer_mem/parameters/p2pmem
	insmod "$REPLICA"
	"$IOPM" bind "$BDF_B"
	"$IOPM" unbind "$BDF_B"
	modules ib_peer_mem
	rmmod replica
	insmod "$MODS/io_peer_mem.ko"
	# A bind that fails leaves what others have loaded.
	echo 0 >/sys/module/io_peer_mem/parameters/bars
	refuses 'Invalid argument' "$IOPM" bind "$BDF_B"
	modules io_peer_mem ib_peer_mem
	unload_modules
	refuses 'modprobe has failed' "$IOPM" bind "$BDF_B"
	load_bars
}
