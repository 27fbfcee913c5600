# SPDX-License-Identifier: GPL-2.0
#
# The kernel log of a guest: marks of tests, and the lines that a healthy kernel does not
# print (bad-log). Sourced by the suites' lib.sh and, on the host, by scripts/checks/log-scan.

log_mark() { echo "peer-test: $1" >/dev/kmsg; }
# Within a test, for one_line. Each of our modules logs at most 10 lines in 5 s that users can
# cause (rust/ext/base/log.rs): no more than 8 steps begin in 6 s, however fast the machine is.
LOG_STEPS=/tmp/log-steps
log_step() {
	local times=()
	[ ! -e $LOG_STEPS ] || mapfile -t times <$LOG_STEPS
	if [ ${#times[@]} -ge 8 ]; then
		until [ $((EPOCHSECONDS - times[-8])) -gt 6 ]; do nap 0.1; done
	fi
	echo "$EPOCHSECONDS" >>$LOG_STEPS
	echo "peer-step: $1" >/dev/kmsg
}

# log_allow PATTERN: called in a test, before the step that provokes them: lines of bad-log that
# match the extended regular expression are permitted until the end of this test, with the call
# trace that follows one, and there must be one. log_may PATTERN: the same, but there may be none.
log_allow() { echo "peer-allow: $1" >/dev/kmsg; }
log_may() { echo "peer-may: $1" >/dev/kmsg; }

# log_take: moves what the kernel has logged since it was last called to the end of $LOG, and makes it
# $LOG.last. dmesg -S reads that by one system call, not one for each line.
LOG=/tmp/log
log_take() {
	local lines
	dmesg -S -c >"$LOG.last"
	mapfile -t lines <"$LOG.last"
	printf '%s\n' "${lines[@]}" >>$LOG
}

# log_since test|step: the log since the last mark of that kind. log_all: of the whole boot.
log_all() { cat $LOG; dmesg -S; }
log_since() {
	dmesg -S | awk -v mark="peer-$1: |peer-test: " '$0 ~ mark { n = 0; next } { line[n++] = $0 }
		END { for (i = 0; i < n; i++) print line[i] }'
}

# log_has PATTERN: since the test began. Not through a pipe: awk would get SIGPIPE.
log_has() { grep -q "$1" < <(log_since test); }

# bad_lines PATTERNS [last]: sets BAD to the lines of the kernel log on stdin that match
# PATTERNS and that their test does not permit, with a line for each log_allow without such
# a line; "last": of the last test alone.
bad_lines() {
	local line pattern trace=''
	local -A permitted=()
	BAD=()
	[ -z "${2:-}" ] || BAD=("no mark of this test")
	while IFS= read -r line; do
		case $line in
		*'] peer-test: '*)
			not_seen
			permitted=()
			[ -z "${2:-}" ] || BAD=() ;;
		*'] peer-allow: '*) permitted["${line#*'] peer-allow: '}"]=wanted ;;
		*'] peer-may: '*) permitted["${line#*'] peer-may: '}"]=seen ;;
		*)
			for pattern in "${!permitted[@]}"; do
				[[ $line =~ $pattern ]] || continue
				permitted["$pattern"]=seen
				trace='*] Call Trace:'
				continue 2
			done
			# shellcheck disable=SC2053 # a pattern
			[[ -n $trace && $line = $trace ]] || BAD+=("$line")
			trace='' ;;
		esac
	done < <(grep -aE -e '\] peer-(test|allow|may): ' -f "$1")
	not_seen
}
not_seen() {
	local pattern
	for pattern in "${!permitted[@]}"; do
		[ "${permitted["$pattern"]}" = seen ] || BAD+=("no line that log_allow permits: $pattern")
	done
}
