# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The permissions of the devices: the installed rules, with udev and systemd-sysusers of
# the distribution.

. ./steps.sh

# shellcheck disable=SC2034 # init's
CHAIN=yes

RULES=/usr/lib/udev/rules.d/60-io-peer-mem.rules

# Before udev starts, which would rename the devices of the stack.
setup() {
	load_stack
	load_core
}

test_install() {
	# Without the group of the distribution, if it has one.
	sed -i /^rdma:/d /etc/group /etc/gshadow
	make -C /mnt/tree install-udev
	systemd-sysusers /usr/lib/sysusers.d/io-peer-mem.conf
	grep ^rdma: /etc/group
	udevadm verify "$RULES"
}

# As a daemon, which init does not kill at the end of the test.
test_udev_runs() {
	/usr/lib/systemd/systemd-udevd --daemon
	eventually test -e /run/udev/control
}

test_bars_are_for_the_group() {
	load_bars
	eventually expect "root:rdma 660" owner "$BAR_A"
	eventually expect "root:rdma 660" owner "$BAR_B"
	note "$BAR_A: $(owner "$BAR_A")"
}

test_again_after_bind() {
	unbind_and_bind "$BDF_A"
	eventually expect "root:rdma 660" owner "$BAR_A"
}

test_export_is_world_accessible() {
	[ -e /dev/ib_peer_mem ] || skip "this module has no such device"
	eventually expect "root:root 666" owner /dev/ib_peer_mem
}

test_rdma_without_root() {
	as rdma "$RDMA" write -o 4097 -l 70003 -s 91 "$BAR_A" | tee /tmp/write
	note "as a user of the group rdma: $(cat /tmp/write)"
}

test_denied_for_others() {
	refuses "$BAR_A: Permission denied" as nogroup "$RDMA" reg "$BAR_A"
	grep 'group rdma' /tmp/refused
}

# Not by "udevadm control --exit": that of Debian 13 sometimes waits for a worker that has
# ended. A udev that still runs would rename the devices of the next suites.
test_udev_ends() {
	pkill -KILL -x 'systemd-udevd|\(udev-worker\)'
	eventually must_fail pgrep -x 'systemd-udevd|\(udev-worker\)'
	rm -rf /run/udev
}
