# SPDX-License-Identifier: GPL-2.0
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

# iopm finds nothing to fix, and transfers bytes into both BARs. The emulated adapter does not reach the
# memory of an SSD, whose driver is built into some kernels.
test_doctor() {
	[ ! -e "/sys/bus/pci/devices/$BDF_SSD/driver" ] || unbind "$BDF_SSD"
	"$IOPM" doctor --test "$DEV" | tee /tmp/doctor
	grep -E "^  ok    $DEV \(mlx5_ib\): hooked, served by dma-buf, can fence: (yes|not seen yet)$" /tmp/doctor
	grep -E "^  ok    $DEV, $BDF_A/bar2: distance [0-9]+ (bus address|host bridge)$" /tmp/doctor
	expect 2 grep -c "^  ok    $DEV, .*bytes compared" /tmp/doctor
	"$IOPM" nearest "$DEV" | grep "$BAR_A"
}

test_pingpong_of_datagrams() { pingpong ibv_ud_pingpong -s 1024; }
test_pingpong_with_a_shared_queue() { pingpong ibv_srq_pingpong; }
test_pingpong_on_demand() { pingpong ibv_rc_pingpong -o; }

# Messages between BARs, connected by IP addresses of the Ethernet port.
test_connection_manager() {
	local server end=$((SECONDS + WAIT_LIMIT)) args=(-R -d "$DEV" -p 18700 -s 65536 -n 50 -F --mmap "$BAR_A")
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

# The adapter gets the same, whether an application registers an address and we make a
# dma-buf of it, or it registers the dma-buf. The address is the same each time.
test_same_translation_as_a_dma_buf() {
	local offset length access ours direct
	same_addresses
	for access in all relaxed; do
		while read -r offset length; do
			ours=$(translation_of "$BAR_A" "$offset" "$length" "$access") || fail "$ours"
			direct=$(translation_of "export:$BAR_A" "$offset" "$length" "$access") ||
				fail "$direct"
			printf '%s %s %s: %s\n' "$offset" "$length" "$access" "$ours"
			[ -n "$ours" ]
			[ "$ours" = "$direct" ] || fail "a dma-buf has: $direct"
		done <<-END
			4095 2
			0 2097152
			12345 3000000
		END
	done
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
	! is_7_0 || ! grep -q ok /tmp/reg || skip "the driver keeps keys of all sizes"
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
