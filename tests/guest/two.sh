# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # for the suites
#
# Two hosts on one wire (scripts/two-guests). Their suites, two_a and two_b, run at the
# same time and have the same tests: each test is the counterpart of the test with that
# name on the other host. Server and client wait for each other for a limited time, so
# they stay in step, and a failure of one ends the test of the other.

. ./steps.sh

IP_A=192.0.2.1 IP_B=192.0.2.2
# How long the hosts wait for each other, in seconds: one may boot, or begin a test, much later
# than the other.
PATIENCE=120
# RoCE v2 over IPv4, which reaches the other host. The emulated ConnectX carries no IP: RoCE v1,
# whose addresses need no resolution.
GID=1
[ "$DEV" = rxe0 ] || GID=0

# wire IP: sets up the network device on the wire as d0.
wire() {
	local nic
	IP=$1
	modprobe virtio_net
	nic=$(ls /sys/bus/virtio/drivers/virtio_net/virtio*/net)
	ip link set lo up
	ip link set "$nic" name d0 mtu 4200
	ip addr replace "$IP/24" dev d0
	ip link set d0 up
}

# sees IP: waits until the other host answers. It may boot later.
sees() { within $PATIENCE busybox ping -c 1 -W 1 "$1"; }

# setup_host IP OTHER-IP
setup_host() {
	wire "$1"
	load_stack
	load_bars
	sees "$2"
}

# meet NAME: waits until the other host is at the same place of its test. HOST is a or b, the suite's.
meet() {
	local name
	if [ "$HOST" = b ]; then
		within $PATIENCE meets_a "$1"
	else
		# Its end is that of the connection.
		name=$(echo "$1" | timeout $PATIENCE busybox nc -l -p 18800)
		[ "$name" = "$1" ] || fail "the other host is at: $name"
	fi
}
meets_a() (
	exec 3<>"/dev/tcp/$IP_A/18800" || exit
	echo "$1" >&3
	read -rt 10 -u 3 name
	[ "$name" = "$1" ]
)

# Removes the device, and brings it back.
pull() {
	echo 1 >"/sys/bus/pci/devices/$1/remove" &
	ended $!
	[ ! -e "/sys/bus/pci/devices/$1" ]
}
plug() {
	echo 1 >/sys/bus/pci/rescan
	find_bars
}
