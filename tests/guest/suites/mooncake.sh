# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Mooncake's transfer engine, unmodified, on mapped BARs, over loop-back of the emulated ConnectX: an
# application that registers memory by address and connects by a handshake of its own. Only
# scripts/check-apps runs this suite.

. ./steps.sh

DIR=/mnt/mooncake

setup() {
	load_stack
	load_modules
	find_bars
	# scripts/qemu shares the directory for this suite alone.
	mkdir -p $DIR
	mountpoint -q $DIR || mount -t 9p \
		-o trans=virtio,version=9p2000.L,msize=512000,ro,cache=loose mooncake $DIR
}

# engine ROLE BAR [ARGUMENT...]: see mooncake_bar.py.
engine() {
	local role=$1 bar=$2
	shift 2
	PYTHONPATH=$DIR MC_GID_INDEX=$(gid_index) PYTHONDONTWRITEBYTECODE=1 \
		timeout 100 python3 mooncake_bar.py "$role" "$IP" "$DEV" "$bar" "$@"
}

# Two processes: the first one writes 1 MiB from BAR A into the BAR B of the second one, and reads 1 MiB
# from there. The host looks at the files behind both BARs.
test_transfer_between_bars() {
	local server segment address before
	before=$(counter num_alloc_mrs)
	mkfifo /tmp/end
	: >/tmp/serve
	engine serve "$BAR_B" </tmp/end >/tmp/serve 2>/tmp/serve.log &
	server=$!
	exec 9>/tmp/end
	wait_line /tmp/serve '^segment ' || { cat /tmp/serve.log; return 1; }
	read -r _ segment address </tmp/serve
	engine transfer "$BAR_A" "$segment" "$address" >/tmp/transfer 2>/tmp/transfer.log ||
		{ cat /tmp/transfer /tmp/transfer.log /tmp/serve.log; return 1; }
	cat /tmp/transfer /tmp/transfer.log
	exec 9>&-
	wait $server || { cat /tmp/serve.log; return 1; }
	host_has b /tmp/transfer wrote
	host_has a /tmp/transfer read
	# Each process has one on its BAR.
	[ $(($(counter num_alloc_mrs) - before)) -ge 2 ] || fail "no MR on a BAR"
	note "Mooncake $(echo $DIR/*.dist-info | sed 's/.*-\(.*\)\.dist-info/\1/'): 1 MiB written and read between two BARs"
	eventually balanced
}
