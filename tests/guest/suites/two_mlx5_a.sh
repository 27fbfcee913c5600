# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # HOST is of two.sh
#
# The first of two hosts with the stock mlx5 driver: the one whose data goes to the other host. See two_mlx5.sh.

. ./two_mlx5.sh

HOST=a

setup() {
	setup_mlx5 "$IP_A" "$IP_B" "$ROCE_A" "$ROCE_B" "$MAC_B"
	make_target rdma "$IP" disk
}

# From the SSD to a BAR here, by RDMA to a BAR there, and from there to the SSD.
test_disk_to_disk() {
	local ssd bar ram
	from_disk_to_disk fill host "$(disk_of disk)"
	ask_host pattern disk 0 "$PAYLOAD" "$SEED"
	counted bar-a from_disk_to_disk send -c "$IP_B" "$BAR_A" "$(disk_of disk)"
	only_bars "$PAYLOAD 0" "$PAYLOAD 0"
}

# The target. Its memory for the data of the initiator is the first BAR.
test_nvme_over_fabrics() {
	local staged ssd bar ram
	offered_in "$BDF_A"
	staged used_by_b
	log_has "nvmet: using p2pmem on $BDF_A for nsid 1"
	# 128 requests of 64 KiB each way, with two memories of the initiator.
	[ "$staged" -ge 512 ] || fail "$staged requests were staged"
	note "host A: $staged requests staged in memory of $BDF_A"
	counted bar-a read_by_b
	only_bars "$PAYLOAD 0" "$PAYLOAD 0"
	meet disconnected
	echo 0 >"$NAMESPACE"/enable
	eventually all_free "$BDF_A"
}
used_by_b() {
	meet offered
	meet verified
}
read_by_b() {
	meet counted
	meet read
}

in_use_now() { ! all_free "$1"; }

# The BAR is unbound under I/O; the target goes on with host memory.
test_unbind_under_io() {
	local took
	offered_in "$BDF_A"
	meet offered
	meet running
	eventually in_use_now "$BDF_A"
	took_ms unbind_in_time "$BDF_A"
	meet unbound
	note "host A: unbind under the target's I/O: $took ms"
	meet disconnected
	echo 0 >"$NAMESPACE"/enable
	rebind "$BDF_A"
}

test_target_is_removed() {
	remove_target
	rmmod nvme-rdma nvmet-rdma nvmet
}
