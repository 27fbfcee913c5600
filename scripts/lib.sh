# SPDX-License-Identifier: GPL-2.0
#
# Shared by all scripts: the cache, atomic publication, progress and log output,
# running commands in the toolchain rootfs. Sourced, never run.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${IB_PEER_MEM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ib-peer-mem}
JOBS=${JOBS:-$(nproc)}
# Set by scripts/check and scripts/soak: the directory of the current run's results.
PEER_MEM_RUN=${PEER_MEM_RUN:-}
LOGS=${PEER_MEM_RUN:+$PEER_MEM_RUN/log}
LOGS=${LOGS:-$CACHE/log}
# The architecture of kernels and guests: amd64, or arm64, whose modules are cross-built. The name of
# an arm64 kernel is enough.
arch_of() { case $1 in *-arm64 | *-arm64-*) echo arm64 ;; *) echo amd64 ;; esac; }
[ -z "${KVER:-}" ] || ARCH=$(arch_of "$KVER")
ARCH=${ARCH:-amd64}
export TOP CACHE JOBS PEER_MEM_RUN
# The source of a kernel, instead of one of Debian, and the .config to build it with.
for path in KERNEL_TREE KERNEL_CONFIG; do
	[ -z "${!path:-}" ] || { declare "$path=$(realpath -m "${!path}")"; export "${path?}"; }
done
# No job server and no flags of the make that may run this script.
unset MAKEFLAGS MFLAGS MAKELEVEL

say()  { printf '\033[1m[%s]\033[0m %s\n' "${0##*/}" "$*" >&2; }
die()  { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# --help: prints the comment at the top of the script.
case ${1:-} in
-h | --help)
	sed -n '4,/^[^#]\|^$/s/^# \{0,1\}//p' "$0"
	exit ;;
esac

# shellcheck disable=SC2034 # for the scripts
case $ARCH in
# Not exported: the kernel's Makefiles have another name for amd64.
amd64 | x86_64 | x86) ARCH=amd64 DEFAULT_TOPOLOGY=flat; export -n ARCH ;;
# There soft RoCE gets no BARs, and devices reach each other only below a switch.
arm64) DEFAULT_TOPOLOGY=connectx_below; export ARCH ;;
*) die "no such architecture: $ARCH (amd64, arm64)" ;;
esac

# arch NAME ARGUMENT...: runs scripts/make/NAME, or the script of that name for the architecture.
arch() {
	local dir=$TOP/scripts/make
	[ "$ARCH" = amd64 ] || dir+=/$ARCH
	[ -f "$dir/$1" ] || die "there is no $1 for $ARCH"
	"$dir/$1" "${@:2}"
}

# crates: prints the packages of crates that userspace/ depends on, as debian/control names them.
crates() { sed -n '/^Build-Depends-Arch:/,/^[A-Z].*:/p' "$TOP/debian/control" | grep -o 'librust-[a-z0-9.+-]*-dev'; }

# known_series: prints the series of kernels in scripts/kernels, the oldest first.
known_series() { awk '/^[0-9]/ { print $1 }' "$TOP/scripts/kernels" | sort -Vu; }

# suite_of RELEASE: the suite of Debian whose compilers have built the kernel, or build that of a tree.
suite_of() {
	case $1 in
	*+deb13-* | *-tree-*) echo trixie ;;
	*+deb14-*) echo forky ;;
	*-amd64 | *-arm64 | *-arm64-16k) echo experimental ;;
	*) die "$1 is no kernel of Debian; KERNEL_TREE=DIR builds one from source" ;;
	esac
}

# tar_checkout: the files of this checkout that git knows, as they are now; others may be keys.
# copy_checkout DIR: copies them.
tar_checkout() {
	git -C "$TOP" ls-files -z --deduplicate | tar -C "$TOP" --null -T - --ignore-failed-read --mtime=@0 -cf - 2>/dev/null
}
copy_checkout() { tar_checkout | tar -C "$1" -mxf -; }

# site_version: the version of packages for a repository: that of the tree, and the time of its last
# commit, or of now if files differ from the commit, so that each state is an upgrade of the one before.
site_version() {
	local version time
	version=$(sed -n 's/^PEER_MEM_VERSION := //p' "$TOP/version.mk")
	time=$(TZ=UTC git -C "$TOP" log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd)
	git -C "$TOP" diff-index --quiet HEAD || time=$(date -u +%Y%m%d%H%M%S)
	printf '%s\n' "$version+git$time"
}

need_root() {
	[ "$(id -u)" = 0 ] || die "needs root (it mounts and chroots): run it with sudo"
}

# parts_of WHEN: the parts of a command in scripts/parts: "PART BUDGET COMMAND" each. any: of all.
PARTS=${PARTS:-$TOP/scripts/parts}
parts_of() {
	awk -v when="$1" '/^[^#]/ && (when == "any" || index("," $1 ",", "," when ",")) { $1 = ""; print substr($0, 2) }' "$PARTS"
}

# in_cache DIR: prints its path below $CACHE. Guests and the trees of in_root see no other
# directory but the checkout, so that one elsewhere is an error.
in_cache() {
	local dir cache
	dir=$(realpath -m "$1") cache=$(realpath -m "$CACHE")
	case $dir in
	"$cache"/*) printf '%s\n' "$CACHE${dir#"$cache"}" ;;
	*) die "$1 is not in the cache, $CACHE: name a directory there" ;;
	esac
}

# key FILE-OR-STRING...: a short digest of the strings and the files' contents.
key() {
	local x
	for x in "$@"; do
		if [ -f "$x" ]; then cat -- "$x"; else printf '%s\n' "$x"; fi
	done | sha256sum | cut -c1-16
}

# code FILE: prints a script without the lines that are comments, for key.
code() { sed '/^[[:space:]]*#/d' "$1"; }

# made NAME KEY: true if $CACHE/NAME was completed with this KEY.
made() {
	[ -e "$CACHE/$1" ] && [ "$(cat "$CACHE/$1.key" 2>/dev/null)" = "$2" ]
}

# lock NAME: only one process at a time makes NAME; the others wait for it. The lock
# belongs to the open file, so it ends with the process.
lock() {
	mkdir -p "$CACHE"
	exec {LOCK_FD}>"$CACHE/$1.lock"
	# A short wait needs no message.
	flock -w 15 "$LOCK_FD" && return
	say "another run is making $1: waiting for it"
	flock "$LOCK_FD"
}

# publish NEW NAME KEY: moves the finished NEW (on the cache's file system) to $CACHE/NAME. The key is
# removed first and written last: after an interruption made() is false.
publish() {
	rm -f "$CACHE/$2.key"
	rm -rf --one-file-system "${CACHE:?}/$2"
	mv -T "$1" "$CACHE/$2"
	printf '%s\n' "$3" >"$CACHE/$2.key.new"
	mv -f "$CACHE/$2.key.new" "$CACHE/$2.key"
}

# cached NAME KEY MESSAGE FUNCTION ARGUMENT...: prints the directory $CACHE/NAME. Unless it was
# completed with this KEY, says MESSAGE first and has FUNCTION fill it: the last argument of FUNCTION
# is an empty directory on the same file system, and its output goes to the log NAME.log.
cached() {
	local name=$1 key=$2 message=$3 new
	shift 3
	# $(cached ...) does not inherit it.
	set -e
	if ! made "$name" "$key"; then
		need_root
		lock "$name"
		# Another process may have made it meanwhile.
		if ! made "$name" "$key"; then
			say "$message"
			new=$(scratch "$name")
			quietly "$name.log" "$@" "$new"
			publish "$new" "$name" "$key"
		fi
	fi
	printf '%s\n' "$CACHE/$name"
}

# once NAME ANSWER: prints the answer and keeps it for the rest of the run, during
# which the checkout does not change. is_once NAME: prints a kept answer, if there is one.
once() {
	local kept=$PEER_MEM_RUN/once/$1
	printf '%s\n' "$2"
	[ -n "$PEER_MEM_RUN" ] || return 0
	mkdir -p "${kept%/*}"
	printf '%s\n' "$2" >"$kept.$$"
	mv -f "$kept.$$" "$kept"
}
is_once() { [ -n "$PEER_MEM_RUN" ] && cat "$PEER_MEM_RUN/once/$1" 2>/dev/null; }

# new_run KIND: creates a directory for the results of one run, $CACHE/results/KIND-TIME-PID, links
# results/last-KIND to it (results/last for "check") and prints it. Of older runs of this kind the last
# KEEP_RUNS stay, and those that still go on. The caller then calls hold_run.
new_run() {
	local kind=$1 results=$CACHE/results run link old
	run=$results/$kind-$(date +%Y%m%d-%H%M%S)-$$
	mkdir -p "$run/log"
	link=last-$kind
	[ "$kind" != check ] || link=last
	ln -s "${run##*/}" "$results/.$link.$$"
	mv -fT "$results/.$link.$$" "$results/$link"
	while read -r old; do
		# A run that goes on holds its lock.
		flock -n "$old/lock" rm -rf --one-file-system "$old" 2>/dev/null || true
	done < <(find "$results" -maxdepth 1 -type d -name "$kind-[0-9]*" ! -path "$run" |
		sort -r | tail -n +"${KEEP_RUNS:-5}")
	printf '%s\n' "$run"
}
# hold_run RUN: keeps RUN from being removed for as long as this process lives.
hold_run() {
	exec {HELD_FD}>"$1/lock"
	flock "$HELD_FD"
}

# workers: how many guests run at a time: one more than processors, since guests also sleep; each
# needs about 3 GiB.
workers() {
	local memory
	memory=$(awk '/^MemAvailable:/ { print int($2 / 3145728) }' /proc/meminfo)
	printf '%s\n' $(($(nproc) + 1)) "$memory" 6 | sort -n | awk 'NR == 1 { print ($1 < 1 ? 1 : $1) }'
}

# scratch NAME: an empty directory of this name in the cache, for publish.
scratch() {
	rm -rf --one-file-system "${CACHE:?}/$1.new"
	mkdir -p "$CACHE/$1.new"
	printf '%s\n' "$CACHE/$1.new"
}

# quietly LOG COMMAND...: runs it with its output in $LOGS/LOG, shows a line of it
# every 15 s, and the end of it if it fails.
quietly() {
	local log="$LOGS/$1" start=$SECONDS pid rc=0 shown=0
	shift
	mkdir -p "${log%/*}"
	# Ctrl-C shall end it: bash lets background commands ignore SIGINT.
	(trap - INT QUIT; "$@") >"$log" 2>&1 </dev/null &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		if [ $((SECONDS - start - shown)) -ge 15 ]; then
			shown=$((SECONDS - start))
			printf '    %4ds  %s\n' "$shown" \
				"$(tail -n 1 "$log" | tr -d '\r' | cut -c1-90)" >&2
		fi
	done
	wait "$pid" || rc=$?
	if [ "$rc" != 0 ]; then
		tail -n 40 "$log" >&2
		die "failed with status $rc after $((SECONDS - start)) s; log: $log"
	fi
}

# in_root DIR COMMAND...: runs COMMAND in the tree DIR, with the checkout and the cache at the same paths
# as outside, in a private mount namespace.
in_root() { (enter_root "$@"); }

# enter_root DIR COMMAND...: the same, by exec: COMMAND replaces this shell.
enter_root() {
	local dir=$1
	shift
	exec unshare --mount --propagation private -- bash -ec '
		dir=$1 top=$2 cache=$3 source=$4
		shift 4
		[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
		[ ! -e /etc/hosts ] || cp -L /etc/hosts "$dir/etc/hosts"
		mount -t proc proc "$dir/proc"
		mount --rbind /dev "$dir/dev"
		mount -t tmpfs tmpfs "$dir/tmp"
		# After /tmp, which they may be in.
		for d in "$top" "$cache"; do
			mkdir -p "$dir$d"
			mount --rbind "$d" "$dir$d"
		done
		if [ -n "$source" ]; then
			mkdir -p "$dir$source"
			mount --bind -o ro "$source" "$dir$source"
		fi
		exec chroot "$dir" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/root LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" "$@"
	' enter_root "$dir" "$TOP" "$CACHE" "${KERNEL_TREE:-}" "$@"
}

# function_in_root DIR FUNCTION ARGUMENT...: runs a function of this script in the tree DIR; it must
# not need others.
function_in_root() {
	local dir=$1
	shift
	in_root "$dir" bash -ec "$(declare -f "$1")"$'\n"$@"' bash "$@"
}

# new_module_key TREE DIR: makes DIR/key, which signs modules, and its DIR/certificate, by the openssl of
# the tree TREE.
new_module_key() {
	in_root "$1" openssl req -new -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=Key of a site/" \
		-keyout "$2/key" -out "$2/certificate"
}

# over TREE CHANGES COMMAND...: runs COMMAND in the tree TREE, as in_root does; what it changes there is kept in the
# directory CHANGES, on the cache's file system. With "mounted" before COMMAND it runs outside, with the whole as
# CHANGES/root.
over() {
	local tree=$1 changes=$2
	shift 2
	mkdir -p "$changes/files" "$changes/work" "$changes/root"
	export -f enter_root
	unshare --mount --propagation private -- bash -euc '
		tree=$1 changes=$2
		shift 2
		mount -t overlay -o "lowerdir=$tree,upperdir=$changes/files,workdir=$changes/work" overlay "$changes/root"
		if [ "$1" = mounted ]; then shift; exec "$@"; fi
		enter_root "$changes/root" "$@"
	' over "$tree" "$changes" "$@"
}
