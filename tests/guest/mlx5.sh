# SPDX-License-Identifier: GPL-2.0
#
# The stock mlx5 driver, on the emulated ConnectX of tests/connectx, in the place of soft RoCE.
# Sourced by lib.sh.

# peer_rdma on that device, under the pid that it is started with.
if [ "$DEV" != rxe0 ]; then
	RDMA=/tmp/peer_rdma
	cat >$RDMA <<-END
		#!/bin/sh
		action=\$1 gid=1
		shift
		grep -q Ethernet /sys/class/infiniband/$DEV/ports/1/link_layer || gid=0
		exec /mnt/programs/peer_rdma "\$action" -d $DEV -x \$gid "\$@"
	END
	chmod +x $RDMA
fi

# The PCI function of the device.
mlx5_bdf() {
	local dev
	dev=$(readlink -f "/sys/class/infiniband/$DEV/device")
	echo "${dev##*/}"
}

# Its network device, if the port is of Ethernet; that of IPoIB is of another type.
mlx5_nic() {
	local net type
	for net in "/sys/class/infiniband/$DEV/device/net"/*; do
		{ read -r type <"$net/type"; } 2>/dev/null || continue
		[ "$type" != 1 ] || echo "${net##*/}"
	done
}

# mlx5_unbind, mlx5_bind: the driver of the function.
mlx5_unbind() {
	# ib_uverbs destroys a queue pair before it zaps the doorbell page of the process.
	connectx_refuses 'doorbell of QP * which is not there'
	mlx5_bdf >/sys/bus/pci/drivers/mlx5_core/unbind
}
mlx5_bind() {
	local dev
	for dev in /sys/bus/pci/devices/*; do
		[ "$(cat "$dev/vendor")" != 0x15b3 ] || [ -e "$dev/driver" ] ||
			echo "${dev##*/}" >/sys/bus/pci/drivers/mlx5_core/bind
	done
	load_mlx5
}

# The index of a GID that applications can use: RoCE v2, or the only one of InfiniBand.
gid_index() {
	if is_ethernet; then echo 1; else echo 0; fi
}
is_ethernet() { grep -q Ethernet "/sys/class/infiniband/$DEV/ports/1/link_layer"; }
has_nic() { [ -n "$(mlx5_nic)" ]; }

# mlx5_nothing_left: the adapter of this guest has no object of an application.
mlx5_nothing_left() {
	local objects
	[ "$DEV" != rxe0 ] || return 0
	objects=$(ask_host connectx applications) || fail "$objects" || return 1
	[ "$objects" = ok ] || fail "the adapter still has: ${objects%ok}"
}

# no_key_reaches [BDF]: no memory key or umem of the adapter translates to the BAR of this
# function, or without BDF to a BAR of any function, or to an address that is not mapped. So it is
# after a revocation, if the key is used or not.
# shellcheck disable=SC2120 # BDF is optional
no_key_reaches() {
	local bars=(bar-a bar-b bar-small) said
	[ "$DEV" != rxe0 ] || return 0
	case ${1:-} in
	'') ;;
	"$BDF_A") bars=(bar-a) ;;
	"$BDF_B") bars=(bar-b) ;;
	"$BDF_SMALL") bars=(bar-small) ;;
	*) return 0 ;;
	esac
	said=$(ask_host connectx reaches "${bars[@]}") || fail "$said"
}

# connectx_refuses PATTERN: this test makes the adapter refuse things: lines of its log with
# "refused: " and the parts of PATTERN between the "*". Others fail the test.
connectx_refuses() {
	[ "$DEV" = rxe0 ] || ask_host connectx refuses "$1"
}
# What was refused and not meant, since it was last asked.
connectx_refused() {
	[ "$DEV" = rxe0 ] || ask_host connectx refused
}
# faults_need_on_demand: the drivers of 7.0 and 7.1 make the queue for page faults with the first on-demand MR of a
# device, and not for a dma-buf.
faults_need_on_demand() { [[ $(uname -r) = 7.[01].* ]]; }

# revocation_is_refused: memory that is revoked is used. A device that has come again may have no queue for page faults.
revocation_is_refused() {
	connectx_refuses 'page fault * cannot be resolved'
	! faults_need_on_demand || connectx_refuses 'no EQ is for page faults'
	connectx_refuses 'fails with syndrome 0x13'
}

# on_demand_mr: one, if the device can have any.
on_demand_mr() {
	python3 -c "from verbs import *
VERBS.ibv_reg_mr(VERBS.rdma_open(b'$DEV').pd, mapped(-1, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS), PAGE, ON_DEMAND)"
}

load_mlx5() {
	local nic
	loaded mlx5_ib || modprobe -a ib_uverbs rdma_ucm mlx5_ib
	eventually test -e "/sys/class/infiniband/$DEV"
	ip link set lo up
	# Another driver of the function makes the network device.
	! is_ethernet || eventually has_nic
	nic=$(mlx5_nic)
	# No duplicate address detection, which takes a second: no other host is on this wire.
	[ -z "$nic" ] || echo 0 >"/proc/sys/net/ipv6/conf/$nic/accept_dad"
	# Without a network device programs find each other by the loopback device.
	[ -n "$nic" ] || ip addr replace "$IP/32" dev lo
	# Two guests have their addresses on a wire beside it (two.sh).
	if [ -n "$nic" ] && [ -e /sys/class/net/d0 ]; then
		ip link set "$nic" mtu 4200 up
	elif [ -n "$nic" ] && [[ $(ip -4 addr show dev "$nic") != *" $IP/"* ]]; then
		ip addr add "$IP/24" dev "$nic"
		ip link set "$nic" mtu 4200 up
	fi
	if ! is_ethernet; then
		device_ready ''
	elif [ -e /sys/class/net/d0 ]; then
		device_ready "$nic" 1
	else
		device_ready "$nic" 1 "3=$IP"
	fi
	! faults_need_on_demand || on_demand_mr
}

# --- steps of the suites mlx5* ---

# pingpong PROGRAM ARGUMENT...: of libibverbs, with itself.
pingpong() {
	local server program=$1 args=(-d "$DEV" -n 100)
	shift
	[ -z "$(mlx5_nic)" ] || args+=(-g 1)
	"$program" "${args[@]}" "$@" >/tmp/server 2>&1 &
	server=$!
	eventually listening 18515
	"$program" "${args[@]}" "$@" localhost
	wait $server || { cat /tmp/server; false; }
}

# queues ACTION ARGUMENT... MEMORY: see mlx5_queue.py.
queues() { python3 mlx5_queue.py "$DEV" "$(gid_index)" "$@"; }

# same_addresses: until the end of the test, processes map memory at the same address each time.
same_addresses() {
	trap 'echo 2 >/proc/sys/kernel/randomize_va_space' EXIT
	echo 0 >/proc/sys/kernel/randomize_va_space
}

# translation KEY [mkeys]: the memory key as the adapter has it, but for the protection domain: with
# what is behind the addresses, or with these.
translation() {
	ask_host connectx "${2:-places}" | sed -n "s/^mkey $1: \(.*\) pd 0x[0-9a-f]*/\1/p"
}

# translation_of MEMORY OFFSET LENGTH ACCESS [OPTION...]: of a new MR, see adapter_start.
# shellcheck disable=SC2154 # rkey is of adapter.sh
translation_of() {
	adapter_start one "$DEV" "$@" || return 1
	translation "$rkey"
	adapter_stop one >/tmp/stopped || { cat /tmp/stopped; return 1; }
	eventually balanced
}

# hold_umr: UMR work requests wait until release_umr, or the end of the test. By them mlx5
# registers memory and takes it away.
hold_umr() {
	ask_host connectx hold-umr
	trap release_umr EXIT
}
release_umr() { ask_host connectx release-umr; }
umr_waits() { ask_host connectx held-umr; }

# hold_command OPCODE: the adapter executes these commands, and completes them at release_commands, or at the
# end of the test.
hold_command() {
	ask_host connectx hold-command "$1"
	trap release_commands EXIT
}
release_commands() { ask_host connectx release-commands; }
command_is_held() { ask_host connectx held-command; }

# ends PID: ends a process whose device or memory is gone.
ends() {
	kill "$1" 2>/dev/null || true
	eventually gone "$1"
	wait "$1" || true
}

# comes_back [BDF]: the device appears again, and works. works_again [BDF]: it does, once this function is
# bound again.
comes_back() {
	load_mlx5
	works_again "$@"
}
works_again() {
	[ $# = 0 ] || rebind "$1"
	eventually balanced
	# shellcheck disable=SC2119 # of all BARs
	no_key_reaches
	"$RDMA" write -o 77 -l 300001 "$BAR_A"
}

# replace PID [BDF]: ends the process; the slot of the dead adapter is reset, and the device comes back.
replace() {
	ends "$1"
	ask_host connectx alive
	echo 1 >/sys/bus/pci/rescan
	comes_back "${@:2}"
}

# mlx5 has noticed that the adapter is dead, and has given up all its queues. A removal that begins
# before that stops the detection, and mlx5_ib may wait for ever for a UMR that it posted in
# between (mlx5r_umr_post_send_wait).
noticed() { log_has 'mlx5_error_sw_reset.*: end'; }

# recovered: mlx5 has loaded itself again, with a new RDMA device. recover_any_time: by default it
# does so at most once a minute.
recover_any_time() { devlink health set "pci/$(mlx5_bdf)" reporter fw_fatal grace_period 0; }
recovered() { log_has 'health recovery succeeded'; }
