# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script here needs: where the cache is, how a thing gets into it
# whole or not at all, how to say what goes on. Sourced, never run.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${IB_PEER_MEM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ib-peer-mem}
JOBS=${JOBS:-$(nproc)}
export TOP CACHE JOBS

say()  { printf '\033[1m[%s]\033[0m %s\n' "${0##*/}" "$*" >&2; }
die()  { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# --help: the comment that the script begins with, whichever it is.
case ${1:-} in
-h | --help)
	sed -n '4,/^[^#]\|^$/s/^# \{0,1\}//p' "$0"
	exit ;;
esac

need_root() {
	[ "$(id -u)" = 0 ] || die "needs root (it mounts and chroots): run it with sudo"
}

# key FILE-OR-STRING...: a short digest of the strings and the files' contents.
key() {
	local x
	for x in "$@"; do
		if [ -f "$x" ]; then cat -- "$x"; else printf '%s\n' "$x"; fi
	done | sha256sum | cut -c1-16
}

# made NAME KEY: true where $CACHE/NAME was completed with this KEY.
made() {
	[ -e "$CACHE/$1" ] && [ "$(cat "$CACHE/$1.key" 2>/dev/null)" = "$2" ]
}

# lock NAME: only one run at a time makes NAME; the others wait for it. The lock
# is the open file, so it goes with the process however that ends.
lock() {
	mkdir -p "$CACHE"
	exec {LOCK_FD}>"$CACHE/$1.lock"
	# Not worth a word where it is all but made.
	flock -w 15 "$LOCK_FD" && return
	say "another run is making $1: waiting for it"
	flock "$LOCK_FD"
}

# publish NEW NAME KEY: put the finished NEW (on the cache's file system) at
# $CACHE/NAME. The key is removed first and written last, so an interruption
# leaves nothing that made() would take for whole.
publish() {
	rm -f "$CACHE/$2.key"
	rm -rf --one-file-system "${CACHE:?}/$2"
	mv -T "$1" "$CACHE/$2"
	printf '%s\n' "$3" >"$CACHE/$2.key.new"
	mv -f "$CACHE/$2.key.new" "$CACHE/$2.key"
}

# once NAME ANSWER: prints the answer, and keeps it for the rest of this run of scripts/check,
# in which the checkout does not change. is_once NAME: prints it where it is kept.
once() {
	printf '%s\n' "$2"
	[ -n "${PEER_MEM_RUN:-}" ] || return 0
	printf '%s\n' "$2" >"$PEER_MEM_RUN/$1.$$"
	mv -f "$PEER_MEM_RUN/$1.$$" "$PEER_MEM_RUN/$1"
}
is_once() { [ -n "${PEER_MEM_RUN:-}" ] && cat "$PEER_MEM_RUN/$1" 2>/dev/null; }

# scratch NAME: an empty folder of this name in the cache, for publish.
scratch() {
	rm -rf --one-file-system "${CACHE:?}/$1.new"
	mkdir -p "$CACHE/$1.new"
	printf '%s\n' "$CACHE/$1.new"
}

# quietly LOG COMMAND...: run it with its output in $CACHE/log/LOG, show that it
# is alive, and show the end of the log where it fails.
quietly() {
	local log="$CACHE/log/$1" start=$SECONDS pid rc=0 shown=0
	shift
	mkdir -p "${log%/*}"
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		if [ $((SECONDS - start - shown)) -ge 15 ]; then
			shown=$((SECONDS - start))
			printf '    %4ds  %s\n' "$shown" \
				"$(tail -n 1 "$log" | tr -d '\r' | cut -c1-90)" >&2
		fi
	done
	wait "$pid" || rc=$?
	if [ "$rc" != 0 ]; then
		tail -n 40 "$log" >&2
		die "failed with status $rc after $((SECONDS - start)) s; whole log: $log"
	fi
}

# in_root DIR COMMAND...: run COMMAND in the tree DIR, with the checkout and the
# cache at the paths they have outside. All mounts live in a mount namespace of
# this call's own, so an interruption leaves none behind.
in_root() { (enter_root "$@"); }

# enter_root DIR COMMAND...: the same in place of this shell, whose process COMMAND becomes.
enter_root() {
	local dir=$1
	shift
	exec unshare --mount --propagation private -- bash -ec '
		dir=$1 top=$2 cache=$3
		shift 3
		[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
		[ ! -e /etc/hosts ] || cp -L /etc/hosts "$dir/etc/hosts"
		mount -t proc proc "$dir/proc"
		mount --rbind /dev "$dir/dev"
		mount -t tmpfs tmpfs "$dir/tmp"
		# After /tmp, which they may be in.
		for d in "$top" "$cache"; do
			mkdir -p "$dir$d"
			mount --bind "$d" "$dir$d"
		done
		exec chroot "$dir" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/root LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" "$@"
	' enter_root "$dir" "$TOP" "$CACHE" "$@"
}
