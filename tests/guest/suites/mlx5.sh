# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # pid is of tests/guest/steps.sh
#
# The stock mlx5 driver on the emulated ConnectX of tests/connectx: that it is stock, that it
# works, and what no other driver shows.

. ./steps.sh
. ./adapter.sh

# From the start of the kernel, with all that the guest needs for its root.
setup() {
	local first=''
	loaded mlx5_ib || first=yes
	load_stack
	[ -z "$first" ] || note "$DEV is active $(cut -d' ' -f1 /proc/uptime) s after the start of the kernel"
	load_bars
}

test_driver_is_stock() { stock "$DEV" mlx5_core mlx5_ib ib_uverbs ib_core; }

test_devinfo() {
	ibv_devinfo -d "$DEV" | tee /tmp/devinfo
	grep -q 'PORT_ACTIVE' /tmp/devinfo
}

# iopm finds nothing to fix, and transfers bytes into both BARs. The emulated adapter does not reach the
# memory of an SSD, whose driver is built into some kernels.
test_doctor() {
	[ ! -e "/sys/bus/pci/devices/$BDF_SSD/driver" ] || unbind "$BDF_SSD"
	/mnt/programs/iopm doctor --test "$DEV" | tee /tmp/doctor
	grep -E "^  ok    $DEV \(mlx5_ib\): hooked, served by dma-buf, can fence: (yes|not seen yet)$" /tmp/doctor
	grep -E "^  ok    $DEV, $BDF_A/bar2: distance [0-9]+ (bus address|host bridge)$" /tmp/doctor
	expect 2 grep -c "^  ok    $DEV, .*bytes compared" /tmp/doctor
	/mnt/programs/iopm nearest "$DEV" | grep "$BAR_A"
}

test_pingpong() { pingpong ibv_rc_pingpong; }
test_pingpong_with_interrupts() { pingpong ibv_rc_pingpong -e; }
test_pingpong_of_datagrams() { pingpong ibv_ud_pingpong -s 1024; }
test_pingpong_with_a_shared_queue() { pingpong ibv_srq_pingpong; }
test_pingpong_on_demand() { pingpong ibv_rc_pingpong -o; }

# peer_cm ACTION ARGUMENT...: on this host's port, by its IP address or GID.
peer_cm() {
	local action=$1 host=$IP
	shift
	[ -n "$(mlx5_nic)" ] || read -r host <"/sys/class/infiniband/$DEV/ports/1/gids/0"
	timeout 100 /mnt/programs/peer_cm "$action" -d "$DEV" -c "$host" -p 18701 "$@"
}

# The connection manager, by the queue pair for general services: two processes whose memory is
# a BAR. On an InfiniBand port the kernel asks the subnet administration for the path.
test_connection_manager() {
	local server lid
	peer_cm serve -o 12345 -l 654321 -s 91 "$BAR_B" >/tmp/server 2>&1 &
	server=$!
	wait_line /tmp/server '^serving'
	peer_cm remote -o 4097 -l 654321 -s 91 "$BAR_A" host | tee /tmp/client
	wait $server || { cat /tmp/server; false; }
	host_has a /tmp/client from
	host_has b /tmp/server serving
	if [ -z "$(mlx5_nic)" ]; then
		read -r lid <"/sys/class/infiniband/$DEV/ports/1/lid"
		grep -x "path from lid=$lid to lid=$lid pkey=0xffff mtu=5 rate=16 hops=0" /tmp/client
		note "rdma_cm, AF_IB: $(grep '^path' /tmp/client)"
	fi
	eventually balanced
}

# By IP addresses, of the Ethernet port.
test_connection_manager_by_ip() {
	local server end=$((SECONDS + WAIT_LIMIT)) args=(-R -d "$DEV" -p 18700 -s 4096 -n 50 -F)
	ib_send_bw "${args[@]}" >/tmp/server 2>&1 &
	server=$!
	while [ $SECONDS -lt $end ]; do
		if ib_send_bw "${args[@]}" "$IP" >/tmp/client 2>&1; then
			wait $server || { cat /tmp/server; false; }
			return
		fi
		# The server is starting.
		! gone $server || break
		nap 1
	done
	kill $server || true
	cat /tmp/client /tmp/server
	false
}

# Without a listener, and to a GID of no port: to that the subnet administration knows no path.
test_connection_manager_refuses() {
	refuses 'EVENT_REJECTED with status 8,' peer_cm remote "$BAR_A"
	if [ -z "$(mlx5_nic)" ]; then
		connectx_refuses 'subnet manager: * attribute 0x35, *: status 0x500'
		refuses 'EVENT_ROUTE_ERROR with status -22,' peer_cm remote -c fe80::1 "$BAR_A"
		grep 'refused: subnet manager: .* attribute 0x35, .*: status 0x500' "$OUT/connectx.log"
	fi
}

# The adapter gets the same, whether an application registers an address and we make a
# dma-buf of it, or it registers the dma-buf. The address is the same each time.
test_same_translation_as_a_dma_buf() {
	local offset length access ours direct
	same_addresses
	for access in all remote-read relaxed; do
		while read -r offset length; do
			ours=$(translation_of "$BAR_A" "$offset" "$length" "$access") || fail "$ours"
			direct=$(translation_of "export:$BAR_A" "$offset" "$length" "$access") ||
				fail "$direct"
			printf '%s %s %s: %s\n' "$offset" "$length" "$access" "$ours"
			[ -n "$ours" ]
			[ "$ours" = "$direct" ] || fail "a dma-buf has: $direct"
		done <<-END
			0 4096
			100 5000
			4095 2
			0 2097152
			12345 3000000
		END
	done
	note "MRs by address and by dma-buf have the same translation, as $(printf '%s' "$ours" | cut -c1-100)"
}

# From one byte to all of the BAR, of which the last bytes are written.
test_lengths() {
	local size=$((64 << 20)) length
	for length in 1 4095 4096 4097 65536 2097153 33554431; do
		"$RDMA" write -m $size -o 1 -l $length -s "$length" "$BAR_A" >/tmp/write
		host_has a /tmp/write wrote
	done
	"$RDMA" span -m $size -o $((size - 4099)) -l 4099 "$BAR_A" | tee /tmp/span
	host_has a /tmp/span wrote
}

# The driver cannot make a memory key: the application gets an error, and nothing is left. Of
# this access no key is kept from earlier MRs.
test_command_fails() {
	# CREATE_MKEY
	ask_host connectx fail-command 0x200 1000
	log_step refused
	"$RDMA" reg -a l "$BAR_A" >/tmp/reg 2>&1
	"$RDMA" reg -a l "$BAR_A" >>/tmp/reg 2>&1
	ask_host connectx fail-command 0x200 0
	cat /tmp/reg
	must_fail grep -q ok /tmp/reg
	# Once for the device and this errno.
	one_line "$DEV: the driver refuses to import peer memory as a dma-buf: E"
	eventually balanced
	expect "registration: ok" "$RDMA" reg -a l "$BAR_A"
}

# The page fault of a writer comes after the revocation, and late.
test_late_page_fault() {
	local pid
	ask_host connectx hold-faults
	launch forever "$BAR_A"
	unbind_in_time "$BDF_A"
	kill -0 "$pid"
	must_fail grep error /tmp/forever
	ask_host connectx release-faults
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	eventually balanced
	rebind "$BDF_A"
	"$RDMA" write "$BAR_A"
}
