# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # out, root, args are of scripts/qemu
#
# The emulated ConnectX beside a guest: a process of its own, which reaches the memory of the
# guest by DMA. Sourced by scripts/qemu.

connectx_pid='' connectx_base=''

# connectx_serve BASE ARGUMENT...: starts the process with these arguments. Its log is BASE.log,
# requests go to the pipe BASE.in and answers to BASE.out.
connectx_serve() {
	local program base=$1
	shift
	program=$("$TOP/scripts/make/connectx")
	connectx_base=$base
	rm -f "$base".{log,in,out}
	touch "$base.log"
	mkfifo "$base.in" "$base.out"
	enter_root "$("$TOP/scripts/make/rootfs")" "$program" \
		--verbose "${CONNECTX_VERBOSE:-2}" --control "$base" "$@" </dev/null >"$base.log" 2>&1 &
	connectx_pid=$!
	until grep -q listening "$base.log"; do
		kill -0 "$connectx_pid" 2>/dev/null || { cat "$base.log" >&2; die "connectx does not start"; }
		sleep 0.1
	done
}

# connectx_start BUS FUNCTIONS OPTION...: adds so many functions to args, and starts the process with
# these options. The memory of the guest must be one that another process can map. With CONNECTX_SOCKET set a process serves that socket already
# (scripts/two-guests).
connectx_start() {
	local bus=$1 functions=$2 socket sockets=()
	shift 2
	if [ -n "${CONNECTX_SOCKET:-}" ]; then
		sockets=("$CONNECTX_SOCKET")
	else
		for ((; functions > 0; functions--)); do sockets+=("$CACHE/connectx-$$-$functions.sock"); done
		connectx_serve "$out/connectx" "$@" "${sockets[@]}"
	fi
	for socket in "${sockets[@]}"; do
		args+=(-device "{\"driver\":\"vfio-user-pci\",\"bus\":\"$bus\",\"socket\":{\"type\":\"unix\",\"path\":\"$socket\"}}")
	done
}

# connectx_end: waits for its end, which comes with that of QEMU; fails if it found an error.
connectx_end() {
	local pid=$connectx_pid
	[ -n "$pid" ] || return 0
	connectx_pid=
	wait "$pid" || die "connectx: $(grep -m 3 ERROR "$connectx_base.log"); its log: $connectx_base.log"
}

# connectx_kill: whatever has happened.
connectx_kill() {
	[ -z "$connectx_pid" ] || kill -9 "$connectx_pid" 2>/dev/null || true
	rm -f "$CACHE/connectx-$$"*.sock
}

# connectx_ask REQUEST: of this guest's function, see tests/connectx/src/control.rs; prints the
# answer. Two guests ask one process, in turn.
connectx_ask() {
	local line base=${CONNECTX_BASE:-$connectx_base}
	(
		flock 7
		printf '%s %s\n' "${CONNECTX_FUNCTION:-0}" "$1" >&8
		while IFS= read -rt 60 -u 9 line; do
			[ "$line" != ok ] || exit 0
			printf '%s\n' "$line"
			[[ $line != failed:* ]] || exit 1
		done
		echo "no answer of connectx"
		exit 1
	) 7>"$base.lock" 8<>"$base.in" 9<>"$base.out"
}
