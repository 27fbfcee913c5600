# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
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

# Its network device, if the port is of Ethernet.
mlx5_nic() {
	local net
	for net in "/sys/class/infiniband/$DEV/device/net"/*; do
		[ ! -e "$net" ] || echo "${net##*/}"
	done
}

# mlx5_unbind, mlx5_bind: the driver of the function.
mlx5_unbind() {
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

# The GID that the kernel makes of the address IP.
mlx5_gid() {
	local a b c d
	IFS=. read -r a b c d <<<"$IP"
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d"
}

# The index of a GID that applications can use: RoCE v2, or the only one of InfiniBand.
gid_index() {
	if grep -q Ethernet "/sys/class/infiniband/$DEV/ports/1/link_layer"; then echo 1; else echo 0; fi
}

mlx5_ready() {
	local port=/sys/class/infiniband/$DEV/ports/1 state gid layer
	{ read -r state <"$port/state" && read -r layer <"$port/link_layer"; } 2>/dev/null || return 1
	[ "$state" = "4: ACTIVE" ] || return 1
	if [ "$layer" != Ethernet ]; then
		return 0
	elif [ -e /sys/class/net/d0 ]; then
		read -r gid <"$port/gids/1" && [[ $gid = fe80:* ]]
	else
		read -r gid <"$port/gids/3" && [ "$gid" = "$(mlx5_gid)" ]
	fi
}

load_mlx5() {
	local nic
	loaded mlx5_ib || modprobe -a ib_uverbs rdma_ucm mlx5_ib
	eventually test -e "/sys/class/infiniband/$DEV"
	ip link set lo up
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
	eventually mlx5_ready
}
