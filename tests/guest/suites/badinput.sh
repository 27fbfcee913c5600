# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What must not work: the right errno, one clear line at most, nothing left behind.

. ./steps.sh

# How a kernel without CONFIG_SYMBOLIC_ERRNAME, as the debug kernel, names an errno.
logged() {
	case $1 in
	EFAULT) echo '(EFAULT|Error\(14\))' ;;
	ENOMEM) echo '(ENOMEM|Error\(12\))' ;;
	esac
}

# refused ERRNO WHO ARGUMENTS...: the registration fails with that, nothing is kept,
# and one log line of WHO, us or the adapter's own driver, says so.
refused() {
	local errno=$1 who=$2
	shift 2
	log_step "$*"
	expect "registration: $errno" "$RDMA" reg "$@"
	balanced
	case $who in
	us) one_line "io_peer_mem .*$BDF_A: .*cannot register .*$(logged "$errno")" ;;
	rxe) one_line "rxe_reg_user_mr: returned err" ;;
	esac
}

test_what_does_work() { expect "registration: ok" "$RDMA" reg -o 1 -l 4096 "$BAR_A"; }

test_empty() { refused EINVAL rxe -l 0 "$BAR_A"; }

test_wraps() { refused EINVAL rxe -o 4096 -l 0xfffffffffffff000 "$BAR_A"; }

test_ends_past_the_mapping() {
	refused EFAULT us -m 65536 -o 0 -l 65537 "$BAR_A"
	refused EFAULT us -m 65536 -o 4096 -l 1048576 "$BAR_A"
}

# Far more than there is memory to write down what there is.
test_ends_far_past_the_mapping() {
	refused EFAULT us -m 65536 -l $((1 << 38)) "$BAR_A"
	refused EFAULT us -m 65536 -l $((1 << 45)) "$BAR_A"
}

test_begins_past_the_mapping() { refused EFAULT rxe -m 65536 -o 65536 -l 4096 "$BAR_A"; }

test_not_mapped() { refused EFAULT rxe -M -@ 0x7e0000000000 -l 4096 "$BAR_A"; }

# A process that has the address, and another one that only knows it.
test_range_of_another_process() {
	local pid address
	start hold hold -n 1 -m 1048576 "$BAR_A"
	wait_line /tmp/hold '^holding 1'
	address=0x$(grep -m1 io_peer_mem "/proc/$pid/maps" | cut -d- -f1)
	log_step "another process"
	expect "registration: EFAULT" "$RDMA" reg -M -@ "$address" -l 4096 "$BAR_A"
	one_line "returned err"
	kill "$pid"
	wait "$pid" || true
	eventually balanced
}

test_read_only_mapping() {
	refused EFAULT us -R -a lw "$BAR_A"
	refused EFAULT us -R -a l "$BAR_A"
}

test_mapping_longer_than_the_bar() {
	must_fail "$RDMA" reg -m $((65 << 20)) "$BAR_A" 2>&1 | grep 'Cannot allocate memory'
	one_line "${BDF_A}.*$((65 << 20)) bytes: $(logged ENOMEM)"
	balanced
}

test_bar_is_full() {
	local pid
	start hold hold -n 1 -m $((64 << 20)) -l 4096 "$BAR_A"
	wait_line /tmp/hold '^holding 1'
	must_fail "$RDMA" reg -m 4096 "$BAR_A" 2>&1 | grep 'Cannot allocate memory'
	kill "$pid"
	wait "$pid" || true
	eventually balanced
}

# 1 MiB cannot become memory of the kernel, whose sections are larger.
test_bar_too_small() {
	[ ! -e "$(bar "$BDF_SMALL")" ]
	[ ! -e /sys/bus/pci/devices/"$BDF_SMALL"/driver ]
	must_fail bind "$BDF_SMALL"
	one_line "${BDF_SMALL}.*at least 2 MiB"
}

# A function with an I/O BAR: that BAR is no memory, and is left alone.
test_io_bar() {
	rmmod io_peer_mem
	load_io 8086:10d3
	[ ! -e "/dev/io_peer_mem/$BDF_NIC/bar2" ]
	log_since test | grep -E "io_peer_mem.*$BDF_NIC"
	rmmod io_peer_mem
	load_io
	find_bars
}

# One of those that this guest's files come through, so it is in use as well.
test_function_of_another_driver() {
	local vendor device devs=(/sys/bus/pci/drivers/virtio-pci/*:*)
	local dev=${devs[0]}
	read -r vendor <"$dev/vendor"
	read -r device <"$dev/device"
	rmmod io_peer_mem
	load_io "$IDS,${vendor#0x}:${device#0x}"
	find_bars
	# Bound to virtio-pci it stays virtio-pci's.
	must_fail bind "${dev##*/}" 2>&1 | grep 'Device or resource busy'
	readlink "$dev/driver" | grep virtio-pci
	rmmod io_peer_mem
	load_io
	find_bars
}
