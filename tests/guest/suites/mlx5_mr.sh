# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid, rkey are of tests/guest/{steps,adapter}.sh
#
# What the stock mlx5 driver does with the keys of MRs of device memory: it changes them, keeps
# them for the next MR, and writes them by work requests (UMR) that take their time.

. ./steps.sh
. ./adapter.sh

# pd_of KEY: its protection domain.
pd_of() { ask_host connectx mkeys | sed -n "s/^mkey $1: .* pd \(0x[0-9a-f]*\) .*/\1/p"; }

# A changed MR has the same translation as a new one of that range and access.
test_reregistration() {
	local offset length access change want got answer pd
	same_addresses
	while read -r offset length access change; do
		want=$(translation_of "$BAR_A" "$offset" "$length" "$access" -m 1048576) || fail "$want"
		adapter_start one "$DEV" "$BAR_A" 0 65536 all -m 1048576
		pd=$(pd_of "$rkey")
		# shellcheck disable=SC2086 # words are meant
		answer=$(adapter_say one rereg $change) || fail "$change: $answer"
		adapter_set "$answer"
		got=$(translation "$rkey")
		[ "$got" = "$want" ] || fail "after rereg $change: $got, a new MR: $want"
		if [ "$change" = pd ]; then [ "$(pd_of "$rkey")" != "$pd" ]; fi
		expect "1 $(pages "$offset" "$length") $length" in_use
		adapter_stop one
		eventually balanced
	done <<-END
		100 5000 all start 100 5000
		0 65536 remote-read access remote-read
		4096 8192 remote-read,relaxed start 4096 8192 access remote-read,relaxed
		0 65536 all pd
	END
}

# Revoked under a writer, deregistered, and its key is that of a new MR.
test_same_key_after_a_revocation() {
	local pid old new
	launch again -l 4096 "$BAR_A"
	unbind_in_time "$BDF_A"
	wait_line /tmp/again '^deregistered'
	grep 'remote access error' /tmp/again
	balanced
	rebind "$BDF_A"
	kill "$pid"
	ended "$pid"
	host_has a /tmp/again wrote
	eventually balanced
	read -r _ old new < <(grep '^keys' /tmp/again)
	[ "$old" = "$new" ]
}

# The memory goes while the key of its MR is being written.
test_revoke_during_a_registration() {
	local pid unbind
	launch hold "$BAR_A"
	ends "$pid"
	hold_umr
	start hold hold "$BAR_A"
	eventually umr_waits
	unbind "$BDF_A" &
	unbind=$!
	eventually in_core "$unbind"
	nap 1
	must_fail gone "$unbind"
	release_umr
	ended "$unbind"
	no_key_reaches "$BDF_A"
	eventually balanced
	ends "$pid"
	works_again "$BDF_A"
}

# Until the adapter has emptied the key its user can write, and the memory is not free for others.
test_revoke_waits_for_the_adapter() {
	local pid unbind before
	launch forever -m $((8 << 20)) "$BAR_A"
	hold_umr
	unbind "$BDF_A" &
	unbind=$!
	eventually umr_waits
	eventually changes "$(sum)" || fail "the writer does not write"
	must_fail grep error /tmp/forever
	must_fail gone "$unbind"
	expect revoking region_rows "$pid" '{ print $10 }'
	release_umr
	ended "$unbind"
	no_key_reaches "$BDF_A"
	before=$(host_sum a)
	wait_line /tmp/forever 'remote access error'
	ended "$pid"
	[ "$(host_sum a)" = "$before" ] || fail "bytes behind the BAR change after the unbind"
	eventually balanced
	works_again "$BDF_A"
}
