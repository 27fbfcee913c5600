# SPDX-License-Identifier: GPL-2.0
#
# The host whose BAR Mooncake's transfer engine offers to the other host. See mooncake.sh.

. ./mooncake.sh
# shellcheck disable=SC2034 # init's
CHAIN=yes

setup() { setup_engine "$IP_A" "$IP_B"; }

# The other host writes 1 MiB into the BAR, and reads 1 MiB from there. QEMU's side compares the
# file behind the BAR.
test_transfer_between_hosts() {
	local server before
	before=$(counter num_alloc_mrs)
	mkfifo /tmp/end
	engine serve </tmp/end >/tmp/serve 2>/tmp/serve.log &
	server=$!
	exec 9>/tmp/end
	wait_line /tmp/serve '^segment ' || { cat /tmp/serve.log; return 1; }
	timeout "$PATIENCE" busybox nc -l -p 18800 </tmp/serve
	timeout "$PATIENCE" busybox nc -l -p 18801 >/tmp/transfer
	cat /tmp/transfer
	exec 9>&-
	wait $server || { cat /tmp/serve.log; return 1; }
	host_has a /tmp/transfer wrote
	one_mr "$before"
	eventually balanced
}
