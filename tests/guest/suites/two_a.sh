# SPDX-License-Identifier: GPL-2.0
#
# The first of two hosts, which reads and writes. See two.sh.

. ./two.sh
# shellcheck disable=SC2034 # of two.sh and init
HOST=a CHAIN=yes

setup() { setup_host "$IP_A" "$IP_B"; }

# remote ACTION ARGUMENTS...: runs peer_rdma with the other host's server.
remote() {
	local action=$1
	shift
	timeout "$PATIENCE" "$RDMA" "$action" -x "$GID" -c "$IP_B" "$@"
}

# From a BAR here to a BAR there, and back into the second BAR here.
test_write_and_read_back() {
	remote remote -o 12345 -l 654321 -s 71 "$BAR_A" "$BAR_B" | tee /tmp/remote
	host_has a /tmp/remote from
	host_has b /tmp/remote back | tee /tmp/host
	note "host A, second BAR, what was read back: $(head -n 1 /tmp/host)"
}

# The adapter detects by its retries that the other one no longer answers.
test_kill_under_a_writer() {
	revocation_is_refused
	connectx_refuses 'fails with syndrome 0x15'
	must_fail remote stream "$BAR_A" | tee /tmp/stream
	meet "the writer has failed"
	grep -E '^write [0-9]+: (transport retry counter exceeded|remote access error)$' /tmp/stream
	note "host A, the writer: $(grep '^write' /tmp/stream)"
	eventually balanced
}

test_pull_under_a_writer() {
	revocation_is_refused
	remote stream -n 20 "$BAR_A" | tee /tmp/stream
	grep 'remote access error' /tmp/stream
	note "host A, the writer: $(grep 'remote access' /tmp/stream), $(grep 'still revoked' /tmp/stream)"
	eventually balanced
}

test_plugged_again() {
	remote remote -o 99 -l 100000 -s 72 "$BAR_A"
	note "host A: $(counter num_alloc_mrs) MRs in total, in use now: $(in_use)"
}
