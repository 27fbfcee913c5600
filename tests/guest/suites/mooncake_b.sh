# SPDX-License-Identifier: GPL-2.0
#
# The host whose transfer engine of Mooncake writes and reads. See mooncake.sh.

. ./mooncake.sh
# shellcheck disable=SC2034 # init's
CHAIN=yes

setup() { setup_engine "$IP_B" "$IP_A"; }

# The line of the other host, and the answer.
segment_of_a() (
	exec 3<>"/dev/tcp/$IP_A/18800" || exit
	read -rt 10 -u 3 line
	[[ $line = 'segment '* ]] && echo "$line" >/tmp/segment
)
told_a() { cat /tmp/transfer >"/dev/tcp/$IP_A/18801"; }

test_transfer_between_hosts() {
	local segment address before
	before=$(counter num_alloc_mrs)
	within "$PATIENCE" segment_of_a
	read -r _ segment address </tmp/segment
	engine transfer "$segment" "$address" >/tmp/transfer 2>/tmp/transfer.log ||
		{ cat /tmp/transfer /tmp/transfer.log; return 1; }
	cat /tmp/transfer /tmp/transfer.log
	within "$PATIENCE" told_a
	host_has a /tmp/transfer read
	one_mr "$before"
	note "Mooncake $(echo "$DIR"/*.dist-info | sed 's/.*-\(.*\)\.dist-info/\1/'): 1 MiB written and read between the BARs of two hosts"
	eventually balanced
}
