# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # pid is the caller's
#
# Work that more than one suite needs done. Sourced by those suites.

# perftest read|write MEMORY SIZE ITERATIONS [both]: Debian's, unmodified, to
# itself: the responder's buffer is in MEMORY (the requester's too, with both).
# Prints MiB/s.
perftest() {
	local tool=ib_$1_bw memory=$2 log=/tmp/perftest port=$((18600 + RANDOM % 1000)) server
	local iterations=$4 common far=() near=()
	# A tenth of the speed: what counts there is that it works.
	[ "$KIND" != debug ] || iterations=$((iterations / 8 + 5))
	common=(-d rxe0 -x 1 -p "$port" -s "$3" -n "$iterations" -F)
	[ "$memory" = host ] || far=(--mmap "$memory")
	[ "${5:-}" != both ] || near=("${far[@]}")
	"$tool" "${common[@]}" "${far[@]}" >$log.server 2>&1 &
	server=$!
	# It says nothing when it listens.
	eventually listening "$port" || { cat $log.server; return 1; }
	"$tool" "${common[@]}" "${near[@]}" "$IP" >$log.client 2>&1 ||
		{ cat $log.client $log.server; return 1; }
	wait $server || { cat $log.server; return 1; }
	awk -v size="$3" '$1 == size && NF >= 5 { print $4; found = 1 } END { exit !found }' $log.client ||
		{ cat $log.client; return 1; }
}
listening() { grep -q ":$(printf '%04X' "$1") .* 0A " /proc/net/tcp /proc/net/tcp6; }

# side_by_side read|write: the BAR and host memory, and their ratio; of each the best of
# PERFTEST_RUNS, in turn, since the machine below has other work as well.
side_by_side() {
	local device=0 host=0 speed run
	for ((run = 0; run < ${PERFTEST_RUNS:-1}; run++)); do
		speed=$(perftest "$1" host 65536 200) || fail "host memory: $speed"
		host=$(printf '%s\n' "$host" "$speed" | sort -g | tail -n 1)
		speed=$(perftest "$1" "$BAR_A" 65536 200) || fail "BAR: $speed"
		device=$(printf '%s\n' "$device" "$speed" | sort -g | tail -n 1)
	done
	note "ib_$1_bw: BAR $device MiB/s, host memory $host MiB/s, ratio $(awk "BEGIN { printf \"%.2f\", $device / $host }")"
	awk "BEGIN { exit !($device > 0) }"
}

# start NAME ARGUMENTS...: peer_rdma in the background; its pid in $pid, what it
# prints in /tmp/NAME.
start() {
	local name=$1
	shift
	# Not what an earlier one has said, should somebody look before this one is there.
	: >"/tmp/$name"
	"$RDMA" "$@" >"/tmp/$name" 2>&1 &
	pid=$!
}

# ended PID: waits for it, a minute; its exit status is the result.
ended() {
	eventually gone "$1"
	wait "$1"
}
# unbind_in_time BDF: or the test goes on, and fails.
unbind_in_time() {
	unbind "$1" &
	ended $!
}
