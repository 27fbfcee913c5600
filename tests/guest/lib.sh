# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # for the suites
#
# Shared by all suites. Sourced by init; every function here may be used in a test, where
# it runs under set -e and its output goes to the test's log.
#
# A new process costs up to 0.3 s on the emulated debug kernel: frequent steps are done by bash itself.

MODS=/mnt/mods
PEERS=/sys/kernel/mm/memory_peers
RDMA=/mnt/programs/peer_rdma
IP=192.0.2.1
IOPM=/mnt/programs/iopm
PARAMETERS=/sys/module/io_peer_mem/parameters
# The network device of soft RoCE.
RXE_NIC=d0
PAGE=$(getconf PAGESIZE)
# The RDMA device: peer.rdma of the kernel command line.
DEV=${RDMA_DEV:-rxe0}

. ./log.sh

# nap SECONDS: sleep, without a process: nothing ever comes through this pipe.
exec {NAP_FD}<> <(:)
nap() { read -rt "$1" -u "$NAP_FD" || true; }

# --- results of a test ---

# A figure or a fact for the reader of the results.
note() { printf '%s\n' "$*" >&3; }
skip() { printf '%s\n' "$*"; exit 4; }
fail() { printf '%s\n' "$*"; false; }

# How long a test waits for what must come, in seconds: only what never comes, or hangs, takes so long,
# also on a machine that is ten times too busy. With a dead adapter the debug kernel needs half a minute
# on an idle machine. Shorter than TEST_LIMIT, so that the failure names what did not come.
WAIT_LIMIT=200

# within SECONDS COMMAND...: waits until it succeeds, so long at most, by the clock: a slow
# COMMAND must not make it longer than a test may take. eventually COMMAND...: WAIT_LIMIT.
# soon COMMAND...: the same, but looks more often, for cheap commands.
within() {
	local limit=$1 end=$((SECONDS + $1))
	shift
	while [ $SECONDS -lt $end ]; do
		! "$@" >/dev/null 2>&1 || return 0
		nap "${LOOK_EVERY:-0.2}"
	done
	echo "still not true after $limit s: $*"
	"$@"
}
eventually() { within $WAIT_LIMIT "$@"; }
soon() { LOOK_EVERY=0.02 eventually "$@"; }

# wait_line FILE PATTERN: waits until the file has a line that matches.
wait_line() { eventually has_line "$1" "$2" || { cat "$1"; false; }; }
has_line() {
	local line
	while IFS= read -r line || [ -n "$line" ]; do [[ ! $line =~ $2 ]] || return 0; done <"$1"
	return 1
}

# gone PID: the process has ended. kill -0 still finds a zombie, and bash can leave a child one
# until it forks again.
gone() {
	local stat
	# /proc//stat is another file.
	{ IFS= read -r stat <"/proc/${1:-none}/stat"; } 2>/dev/null || return 0
	[[ ${stat##*) } = Z* ]]
}

# expect WANT COMMAND...: the command prints exactly WANT. It may fail, but not crash, nor be missing.
expect() {
	local want=$1 got rc=0
	shift
	got=$("$@" 2>&1) || rc=$?
	[ "$got" = "$want" ] || fail "$* printed: $got, instead of: $want" || return
	[ $rc -lt 126 ] || fail "$* printed what it should, and ended with status $rc"
}

# kill_and_wait [-SIGNAL] PID: ends a child of the test.
kill_and_wait() {
	kill "$@"
	wait "${!#}" || true
}

# trace_calls FUNCTION: the kernel records its calls, with the callers, until traced_calls prints them.
TRACING=/sys/kernel/tracing
TRACE=$TRACING/instances/peer
trace_calls() {
	mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING
	mkdir "$TRACE"
	echo "$1" >"$TRACE/set_ftrace_filter"
	echo function >"$TRACE/current_tracer"
}
traced_calls() {
	grep -v '^#' "$TRACE/trace" || true
	rmdir "$TRACE"
}

# must_fail COMMAND...: the command fails; but it is there, and does not crash, and grep has a file to read.
must_fail() {
	local rc=0
	"$@" || rc=$?
	[ $rc != 0 ] || fail "succeeded: $*" || return
	[ $rc -lt 126 ] || fail "crashed, or is missing: $*: status $rc" || return
	[ "$1" != grep ] || [ $rc = 1 ] || fail "nothing to read: $*"
}

# refuses WORDS COMMAND...: the command fails, and its message matches WORDS.
refuses() {
	local words=$1
	shift
	must_fail "$@" 2>/tmp/refused
	cat /tmp/refused
	grep -q "$words" /tmp/refused
}

# insmod_refuses LINE MODULE PARAMETER...: the module does not load, and the log has the LINE.
insmod_refuses() { logs "$1" must_fail insmod "${@:2}"; }

# as GROUP COMMAND...: runs it as a user of this group alone.
as() {
	local group=$1
	shift
	setpriv --reuid 65534 --regid nogroup --groups "$group" -- "$@"
}

# one_line PATTERN: since the last step our modules and the adapter's driver logged exactly
# one line, and it matches.
one_line() {
	local lines
	lines=$(log_since step | grep -E '\b(ib|io)_peer_mem\b|rxe0: .*returned err' || true)
	printf '%s\n' "$lines"
	[ "$(printf '%s\n' "$lines" | grep -c .)" = 1 ] || fail "one log line was expected"
	grep -qiE "$1" <<<"$lines" || fail "the line was expected to match: $1"
}

# no_line: since the last step our modules logged nothing.
no_line() {
	must_fail eval "log_since step | grep -E '\b(ib|io)_peer_mem\b'"
}

# logs LINE COMMAND...: the command is a step, and since its begin the log has a line that matches.
# logs_one LINE COMMAND...: the same with one_line.
logs() {
	log_step "${*:2}"
	"${@:2}"
	log_since step | grep -E "$1"
}
logs_one() {
	log_step "${*:2}"
	"${@:2}"
	one_line "$1"
}

# --- the host ---

# ask_host REQUEST...: see scripts/qemu, which removes an old reply with the request.
ask_host() {
	local text
	echo "$*" >"$OUT/request"
	LOOK_EVERY=0.05 eventually answered
	IFS= read -rd '' text <"$OUT/reply" || true
	text=${text%$'\n'}
	printf '%s\n' "$text"
	[ "${text##*$'\n'}" = ok ]
}
answered() { [ ! -e "$OUT/request" ] && [ -e "$OUT/reply" ]; }

# host_sum BAR: the checksum of all bytes in the file behind it. Not through a pipe to a
# command that stops reading: bash writes line by line, and the second line would be SIGPIPE.
host_sum() {
	local text
	text=$(ask_host sum "$1")
	printf '%s\n' "${text%%$'\n'*}"
}

# sum: that of the first BAR. changes SUM [BAR]: it, or that of BAR, is another one now.
sum() { host_sum a; }
changes() { [ "$(host_sum "${2:-a}")" != "$1" ]; }

# host_has BAR OUTPUT WORD: a line of OUTPUT that begins with WORD describes a pattern;
# succeeds if the host finds that pattern in the file behind the BAR.
host_has() {
	local offset length seed guard line
	line=$(grep "^$3 " "$2")
	for word in $line; do
		case $word in
		offset=*) offset=${word#*=} ;;
		length=*) length=${word#*=} ;;
		seed=*) seed=${word#*=} ;;
		guard=*) guard=${word#*=} ;;
		esac
	done
	ask_host pattern "$1" "$offset" "$length" "$seed" "$guard"
}

# --- the stock RDMA stack ---

# device_ready NIC [GID]...: waits until queue pairs of $DEV can be connected. NIC is its network
# device, or empty if the port is of InfiniBand. GID is an index, or one with "=" and an IPv4
# address.
device_ready() {
	LINK_CHANGES=
	eventually queue_pairs_connect "$@"
}
# The port is active, the network device is up and the same as at the look before, as its link goes
# down and up while a driver sets it up, and the kernel has the GIDs and resolves them: the
# addresses of a device get their routes after their GIDs.
queue_pairs_connect() {
	local port=/sys/class/infiniband/$DEV/ports/1 nic=$1 before=$LINK_CHANGES
	local state carrier=1 changes=0 index gid
	LINK_CHANGES=
	shift
	{ read -r state <"$port/state"; } 2>/dev/null && [ "$state" = "4: ACTIVE" ] || return 1
	[ -n "$nic" ] || return 0
	{ read -r carrier <"/sys/class/net/$nic/carrier" && read -r changes <"/sys/class/net/$nic/carrier_changes"; } \
		2>/dev/null || return 1
	[ "$carrier" = 1 ] || return 1
	for index; do
		{ read -r gid <"$port/gids/${index%=*}"; } 2>/dev/null || return 1
		case $index in
		*=*)
			[ "$gid" = "$(gid_of "${index#*=}")" ] || return 1
			is_own "${index#*=}" "$nic" || return 1 ;;
		*)
			[[ $gid = fe80:* ]] || return 1
			is_own "$gid" "$nic" || return 1 ;;
		esac
	done
	LINK_CHANGES=$changes
	[ "$changes" = "$before" ]
}
# is_own ADDRESS NIC: the kernel resolves this address as one of its own.
is_own() {
	local route
	route=$(ip route get "$1" oif "$2") && [[ $route = local* ]]
}
# gid_of IP: the GID that the kernel makes of it.
gid_of() {
	# shellcheck disable=SC2086,SC2183 # its four numbers are
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${1//./ }
}

add_rxe() {
	[ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev "$RXE_NIC"
	# Also in a guest whose device is another.
	DEV=rxe0 device_ready "$RXE_NIC" 0 "1=$IP"
}

# A user's setup: stock modules, a network device, an RDMA device on it.
load_stack() {
	if [ "$DEV" = rxe0 ]; then load_rxe; else load_mlx5; fi
}
load_rxe() {
	loaded rdma_rxe || modprobe -a ib_uverbs rdma_ucm rdma_rxe dummy
	if [ ! -e "/sys/class/net/$RXE_NIC" ]; then
		ip link set lo up
		ip link add "$RXE_NIC" type dummy
		ip link set "$RXE_NIC" address 02:00:00:00:00:01 mtu 4200
		ip addr add "$IP/24" dev "$RXE_NIC"
		ip link set "$RXE_NIC" up
	fi
	add_rxe
}

# remove_device, add_device: the RDMA device, as an administrator does it.
remove_device() {
	if [ "$DEV" = rxe0 ]; then rdma link delete rxe0; else mlx5_unbind; fi
}
add_device() {
	if [ "$DEV" = rxe0 ]; then add_rxe; else mlx5_bind; fi
}

# No MR, and no process that has the device open.
nothing_registered() {
	local objects
	[ -e "/sys/class/infiniband/$DEV" ] || return 0
	objects="$(rdma resource show "$DEV") "
	[[ $objects = *" mr 0 "* && $objects = *" ctx 0 "* ]] || fail "$objects"
}

. ./mlx5.sh

# share_of_host TAG DIR: what scripts/qemu shares for some suites alone.
share_of_host() {
	mkdir -p "$2"
	mountpoint -q "$2" || mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,ro,cache=loose "$1" "$2"
}

# --- our modules ---

IDS=1af4:1110
loaded() { [ -e "/sys/module/$1/initstate" ]; }
# unload_io, load_io_with PARAMETER...: the client alone, with parameters besides the ids.
unload_io() { ! loaded io_peer_mem || rmmod io_peer_mem; }
load_io_with() { unload_io && insmod "$MODS/io_peer_mem.ko" "ids=$IDS" "$@"; }
# If the modules are built with COVERAGE=1: collects their counters.
load_coverage() {
	[ ! -e "$MODS/peer_mem_coverage.ko" ] || loaded peer_mem_coverage ||
		insmod "$MODS/peer_mem_coverage.ko"
}
# load_core PARAMETER...
# shellcheck disable=SC2120 # only kunit gives it parameters
load_core() { load_coverage; loaded ib_peer_mem || insmod "$MODS/ib_peer_mem.ko" "$@"; }
# shellcheck disable=SC2120 # only badinput gives it other ids
load_io() { loaded io_peer_mem || insmod "$MODS/io_peer_mem.ko" "ids=${1:-$IDS}"; }
load_modules() { load_core; load_io "$IDS"; }
unload_modules() {
	! loaded peer_mem_kunit || rmmod peer_mem_kunit
	! loaded io_peer_mem || rmmod io_peer_mem
	! loaded ib_peer_mem || rmmod ib_peer_mem
	must_fail loaded io_peer_mem
	must_fail loaded ib_peer_mem
}

# find_functions: the PCI functions of scripts/topology; the peers differ in the size of
# their BAR 2. Their addresses stay the same as long as the guest runs.
find_functions() {
	local dev vendor device start end _
	BDF_EDU=()
	for dev in /sys/bus/pci/devices/*; do
		read -r vendor <"$dev/vendor"
		read -r device <"$dev/device"
		{ read -r _; read -r _; read -r start end _; } <"$dev/resource"
		case $vendor:$device:$((end - start + 1)) in
		0x1af4:0x1110:$((64 << 20)) | 0x1af4:0x1110:$((256 << 20)) | 0x1af4:0x1110:$((8 << 30)))
			BDF_A=${dev##*/} ;;
		0x1af4:0x1110:$((32 << 20))) BDF_B=${dev##*/} ;;
		0x1af4:0x1110:$((1 << 20))) BDF_SMALL=${dev##*/} ;;
		0x8086:0x10d3:*) BDF_NIC=${dev##*/} ;;
		0x1b36:0x0010:*) BDF_SSD=${dev##*/} ;;
		0x1234:0x11e8:*) BDF_EDU+=("${dev##*/}") ;;
		esac
	done
	BAR_A=$(bar "$BDF_A")
	BAR_B=$(bar "$BDF_B")
}

# Loads what is not loaded, and waits for the BARs.
load_bars() {
	load_modules
	find_bars
}

bar() { echo "/dev/io_peer_mem/$1/bar2"; }
find_bars() {
	eventually test -c "$(bar "$BDF_A")"
	eventually test -c "$(bar "$BDF_B")"
}

bind() { echo "$1" >/sys/bus/pci/drivers/io_peer_mem/bind; }
unbind() { echo "$1" >/sys/bus/pci/devices/"$1"/driver/unbind; }
# rebind BDF: binds it, and waits for the BARs. unbind_and_bind BDF: the same, after an unbind.
rebind() {
	bind "$1"
	find_bars
}
unbind_and_bind() {
	unbind "$1"
	rebind "$1"
}
owner() { stat -c '%U:%G %a' "$1"; }

# value_of FILE: prints the line that it has.
value_of() {
	local value
	read -r value <"$1"
	echo "$value"
}
counter() { value_of "$PEERS/io_peer_mem/$1"; }
client_is() { expect "$1" ls "$PEERS"; }

# in_use [CLIENT]: the MRs, pages and bytes of the client, else of io_peer_mem, that are registered now.
in_use() (
	cd "$PEERS/${1:-io_peer_mem}"
	read -r a <num_alloc_mrs && read -r d <num_dealloc_mrs
	read -r rp <num_reg_pages && read -r dp <num_dereg_pages
	read -r rb <num_reg_bytes && read -r db <num_dereg_bytes
	echo "$((a - d)) $((rp - dp)) $((rb - db))"
)
REGIONS=/sys/kernel/debug/ib_peer_mem/regions
# region_rows PID [AWK]: the rows of a process in the list, or what AWK prints of each.
region_rows() { awk -F '\t' -v pid="$1" "\$1 == pid ${2:-}" $REGIONS; }
balanced() { [ "$(in_use "$@")" = "0 0 0" ]; }
# pages OFFSET LENGTH: how many pages a range at this offset from the start of a page touches.
pages() { echo $((($1 % PAGE + $2 + PAGE - 1) / PAGE)); }
# all_free [BDF]...: nothing of the memory of these functions, or of the first one, is allocated.
all_free() {
	local bdf
	for bdf in "${@:-$BDF_A}"; do
		cmp -s "/sys/bus/pci/devices/$bdf/p2pmem/available" "/sys/bus/pci/devices/$bdf/p2pmem/size" || return 1
	done
}
# rejected PATTERN: the last rejection in debugfs matches.
rejected() {
	tail -n 1 /sys/kernel/debug/ib_peer_mem/rejections | tee /tmp/rejection
	grep -E "$1" /tmp/rejection
}
# all_released: waits until no MR is left.
all_released() {
	eventually balanced
	eventually nothing_registered
}
