# SPDX-License-Identifier: GPL-2.0
#
# The second of two hosts, whose memory is read and written. See two.sh.

. ./two.sh
# shellcheck disable=SC2034 # of two.sh and init
HOST=b CHAIN=yes

setup() { setup_host "$IP_B" "$IP_A"; }

serve() { "$RDMA" serve -x "$GID" "$@"; }
test_write_and_read_back() {
	serve -o 4099 -l 654321 -s 71 "$BAR_A" | tee /tmp/serve
	host_has a /tmp/serve serving | tee /tmp/host
	note "host B, what was written: $(head -n 1 /tmp/host)"
}

# being_written: waits until the other host's writer writes.
being_written() {
	wait_line /tmp/serve '^serving'
	within "$PATIENCE" changes "$(sum)"
	# It goes on.
	eventually changes "$(sum)"
}

test_kill_under_a_writer() {
	local pid before
	# The key may be gone before the queue pair.
	connectx_refuses 'request refused: mkey'
	start serve serve -x "$GID" -m $((8 << 20)) "$BAR_A"
	being_written
	kill_and_wait -9 "$pid"
	all_released
	before=$(sum)
	meet "the writer has failed"
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the server's end"
	note "host B: server killed, in use now: $(in_use); no byte of the BAR changed after that"
}

test_pull_under_a_writer() {
	local pid took before
	revocation_is_refused
	# One client that writes, and its twenty later tries.
	start serve serve -x "$GID" -n 21 -m $((8 << 20)) "$BAR_A"
	being_written
	took_ms pull "$BDF_A"
	before=$(sum)
	note "host B: the pull of the device returned after $took ms"
	[ ! -e "$BAR_A" ]
	no_key_reaches "$BDF_A"
	eventually balanced
	[ "$(counter num_free_callbacks)" -gt 0 ]

	# The server ends after the last try.
	wait "$pid"
	grep -x 'deregistered' /tmp/serve
	[ "$(sum)" = "$before" ] || fail "bytes behind the BAR change after the pull"
	note "host B: no byte of the BAR changed after that"
}

test_plugged_again() {
	plug
	serve -o 77 -l 100000 -s 72 "$BAR_A" | tee /tmp/serve
	host_has a /tmp/serve serving
	note "host B: $(counter num_alloc_mrs) MRs in total, in use now: $(in_use)"
}
