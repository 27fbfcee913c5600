# SPDX-License-Identifier: GPL-2.0
#
# Invalid registrations fail with the right errno, at most one log line, and no leak.

. ./steps.sh

# refused ERRNO LOGGER ARGUMENTS...: the registration fails with this errno and leaks
# nothing, and LOGGER (client: io_peer_mem, rxe: the adapter's driver) logs one line; other
# drivers of adapters log nothing.
refused() {
	local errno=$1 logger=$2
	shift 2
	log_step "$*"
	expect "registration: $errno" "$RDMA" reg "$@"
	balanced
	case $logger in
	rxe) [ "$DEV" = rxe0 ] || { no_line; return; } ;;&
	client) one_line "io_peer_mem .*$BDF_A: .*cannot register [0-9]+ bytes: .*(EFAULT|Error\(14\))" ;;
	rxe) one_line "rxe_reg_user_mr: returned err" ;;
	esac
}

# The table of the last two ranges would exceed the memory of the machine.
test_ranges_outside_of_the_memory() {
	local errno logger range
	while read -r errno logger range; do
		# shellcheck disable=SC2086 # words are meant
		refused "$errno" "$logger" $range "$BAR_A"
	done <<-END
		EINVAL rxe -l 0
		EINVAL rxe -o 4096 -l 0xfffffffffffff000
		EFAULT rxe -M -@ 0x7e0000000000 -l 4096
		EFAULT rxe -m 65536 -o 65536 -l 4096
		EFAULT client -m 65536 -l 65537
		EFAULT client -m 65536 -o 4096 -l 1048576
		EFAULT client -m 65536 -l $((1 << 38))
		EFAULT client -m 65536 -l $((1 << 45))
	END
}

# However often a user does it, our modules log ten lines in five seconds at most, without addresses.
test_log_is_limited() {
	log_step "limited"
	expect "registration: EFAULT" "$RDMA" reg -n 200 -R -a lw "$BAR_A"
	log_since step | grep 'io_peer_mem .*cannot register' | tee /tmp/lines
	# Those of the end of five seconds and those of the beginning of the next may follow each other.
	awk '{ gsub(/[][]/, ""); at[NR] = $1 }
		END { for (i = 21; i <= NR; i++) if (at[i] - at[i - 20] < 4.9) exit 1; exit !NR }' /tmp/lines
	must_fail grep -E '0x[0-9a-f]{9}' /tmp/lines
	balanced
	note "200 rejections: $(wc -l </tmp/lines) lines in the log"
	# For the tests after this one.
	nap 6
}

# One process maps the memory, another one registers the same address.
test_range_of_another_process() {
	local pid address
	launch hold -n 1 -m 1048576 "$BAR_A"
	address=0x$(grep -m1 io_peer_mem "/proc/$pid/maps" | cut -d- -f1)
	log_step "another process"
	expect "registration: EFAULT" "$RDMA" reg -M -@ "$address" -l 4096 "$BAR_A"
	if [ "$DEV" = rxe0 ]; then one_line "returned err"; else no_line; fi
	kill_and_wait "$pid"
	eventually balanced
}

test_read_only_mapping() {
	refused EFAULT client -R -a lw "$BAR_A"
	refused EFAULT client -R -a l "$BAR_A"
}

test_mapping_longer_than_the_bar() {
	must_fail "$RDMA" reg -m $((65 << 20)) "$BAR_A" 2>&1 | grep 'Cannot allocate memory'
	one_line "${BDF_A}.*$((65 << 20)) bytes: (ENOMEM|Error\(12\))"
	balanced
}

# A function with an I/O BAR: this BAR is not served.
test_io_bar() {
	rmmod io_peer_mem
	load_io 8086:10d3
	[ ! -e "/dev/io_peer_mem/$BDF_NIC/bar2" ]
	log_since test | grep -E "io_peer_mem.*$BDF_NIC"
	rmmod io_peer_mem
	load_bars
}
