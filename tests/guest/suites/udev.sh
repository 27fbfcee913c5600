# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Who may open the devices: the rules as they are installed, with the udev and the
# systemd-sysusers of the distribution.

. ./steps.sh

RULES=/usr/lib/udev/rules.d/60-io-peer-mem.rules

# The stack first: a udev that runs then renames its devices.
setup() {
	load_stack
	load_core
}

test_install() {
	# Group and rule of the distribution, if any, are no help.
	sed -i /^rdma:/d /etc/group /etc/gshadow
	make -C /mnt/tree install-udev
	systemd-sysusers /usr/lib/sysusers.d/io-peer-mem.conf
	grep ^rdma: /etc/group
	udevadm verify "$RULES"
}

# It is not there any more where a test ends: init kills what the test has started.
test_udev_runs() {
	/usr/lib/systemd/systemd-udevd --daemon
	eventually test -e /run/udev/control
}

who() { stat -c '%U:%G %a' "$1"; }

test_bars_are_for_the_group() {
	load_io
	find_bars
	eventually expect "root:rdma 660" who "$BAR_A"
	eventually expect "root:rdma 660" who "$BAR_B"
	note "$BAR_A: $(who "$BAR_A")"
}

test_again_after_bind() {
	unbind "$BDF_A"
	bind "$BDF_A"
	find_bars
	eventually expect "root:rdma 660" who "$BAR_A"
}

test_export_is_for_everybody() {
	[ -e /dev/ib_peer_mem ] || skip "this module has no such device"
	eventually expect "root:root 666" who /dev/ib_peer_mem
}

# as GROUP COMMAND...: a user that is in no other group.
as() {
	local group=$1
	shift
	setpriv --reuid nobody --regid nogroup --groups "$group" -- "$@"
}

test_rdma_without_root() {
	as rdma "$RDMA" write -o 4097 -l 70003 -s 91 "$BAR_A" | tee /tmp/write
	note "as a user of the group rdma: $(cat /tmp/write)"
}

test_not_for_others() {
	must_fail as nogroup "$RDMA" reg "$BAR_A" 2>/tmp/error
	cat /tmp/error
	grep "$BAR_A: Permission denied" /tmp/error
	grep 'group rdma' /tmp/error
}

# Not by "udevadm control --exit": Debian 13's goes on waiting, now and then, for a worker
# that has ended. The suites that follow must find no udev that renames their devices.
test_udev_ends() {
	pkill -KILL -x 'systemd-udevd|\(udev-worker\)'
	eventually must_fail pgrep -x 'systemd-udevd|\(udev-worker\)'
	rm -rf /run/udev
}
