# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The stock stack without our modules: checks the harness itself.

. ./steps.sh

setup() { load_stack; }

test_host_memory() {
	"$RDMA" write -o 77 -l 300001 host
	"$RDMA" atomic -o 77 -l 4096 host
	"$RDMA" copy -o 77 -l 100000 host
}

test_perftest() {
	local direction speed
	for direction in write read; do
		speed=$(perftest $direction host 65536 200) || fail "$speed"
		note "ib_${direction}_bw on host memory: $speed MiB/s"
	done
}

test_bad_registrations_of_host_memory() {
	expect "registration: ok" "$RDMA" reg -l 4096 host
	expect "registration: EFAULT" "$RDMA" reg -M -@ 0x7e0000000000 -l 4096 host
	expect "registration: EFAULT" "$RDMA" reg -R -a lw -l 4096 host
}
