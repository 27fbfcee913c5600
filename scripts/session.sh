# SPDX-License-Identifier: GPL-2.0
#
# run_session COMMAND...: runs COMMAND in a session of its own and returns its status. When
# this shell ends, by Ctrl-C or any signal, all processes of that session end as well:
# for SIGKILL a second process watches. Sourced by the scripts that run others side by side.

# members SESSION: the process ids in it.
members() {
	local file stat
	for file in /proc/[0-9]*/stat; do
		{ read -r stat <"$file"; } 2>/dev/null || continue
		# After the name, in parentheses: state, parent, group, session.
		read -r -a stat <<<"${stat##*) }"
		[ "${stat[3]}" != "$1" ] || [ "${stat[0]}" = Z ] || { file=${file%/stat}; echo "${file##*/}"; }
	done
}

# end_session SESSION: SIGTERM to its members, and SIGKILL to those that stay.
end_session() {
	local signal pids i
	for signal in TERM KILL; do
		for ((i = 0; i < 30; i++)); do
			mapfile -t pids < <(members "$1")
			[ ${#pids[@]} -gt 0 ] || return 0
			[ $i != 0 ] || kill -$signal "${pids[@]}" 2>/dev/null || true
			sleep 0.1
		done
	done
}

run_session() {
	local status=0
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	setsid "$@" </dev/null &
	LEADER=$!
	trap 'end_session $LEADER' EXIT
	setsid bash -c '. "$1"; tail --pid="$2" -f /dev/null; end_session "$3"' watch \
		"${BASH_SOURCE[0]}" $$ $LEADER </dev/null >/dev/null 2>&1 &
	# A background process waits in a way that signals interrupt.
	wait $LEADER || status=$?
	end_session $LEADER
	trap - EXIT INT TERM HUP
	return $status
}
