# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # pid is the caller's
#
# Steps that more than one suite needs. Sourced by those suites.

# perftest read|write MEMORY SIZE ITERATIONS [both]: Debian's perftest, unmodified, over
# loop-back. The responder's buffer is in MEMORY; with "both" the requester's too. Prints
# MiB/s. Of the caller: options (PERFTEST_OPTIONS), and a command that runs the requester's
# (PERFTEST_BY).
perftest() {
	local tool=ib_$1_bw memory=$2 log=/tmp/perftest port=$((18600 + RANDOM % 1000)) server
	local iterations=$4 common far=() near=()
	# A tenth of the speed; there it only has to work.
	[ "$KIND" != debug ] || iterations=$((iterations / 8 + 5))
	common=(-d "$DEV" -x "$(gid_index)" -p "$port" -s "$3" -n "$iterations" -F "${PERFTEST_OPTIONS[@]}")
	[ "$memory" = host ] || far=(--mmap "$memory")
	[ "${5:-}" != both ] || near=("${far[@]}")
	"$tool" "${common[@]}" "${far[@]}" >$log.server 2>&1 &
	server=$!
	# It prints nothing when it listens.
	eventually listening "$port" || { cat $log.server; return 1; }
	"${PERFTEST_BY[@]}" "$tool" "${common[@]}" "${near[@]}" "$IP" >$log.client 2>&1 ||
		{ cat $log.client $log.server; return 1; }
	wait $server || { cat $log.server; return 1; }
	awk -v size="$3" '$1 == size && NF >= 5 { print $4; found = 1 } END { exit !found }' $log.client ||
		{ cat $log.client; return 1; }
}
listening() { grep -q ":$(printf '%04X' "$1") .* 0A " /proc/net/tcp /proc/net/tcp6; }

# side_by_side read|write: the BAR and host memory, and their ratio; the best of
# PERFTEST_RUNS runs each, alternating, since the host may be busy.
side_by_side() {
	local device=0 host=0 speed run
	for ((run = 0; run < ${PERFTEST_RUNS:-1}; run++)); do
		speed=$(perftest "$1" host 65536 200) || fail "host memory: $speed"
		host=$(printf '%s\n' "$host" "$speed" | sort -g | tail -n 1)
		speed=$(perftest "$1" "$BAR_A" 65536 200) || fail "BAR: $speed"
		device=$(printf '%s\n' "$device" "$speed" | sort -g | tail -n 1)
	done
	note "$DEV: ib_$1_bw: BAR $device MiB/s, host memory $host MiB/s, ratio $(awk "BEGIN { printf \"%.2f\", $device / $host }")"
	awk "BEGIN { exit !($device > 0) }"
}

# stock DEVICE MODULE...: the modules behind this RDMA device are loaded, and their files are
# those of the distribution.
stock() {
	local module file device=$1
	shift
	for module; do
		loaded "$module"
		file=$(modinfo -n "$module")
		[[ $file = "/lib/modules/$(uname -r)/kernel/drivers/"* ]] || fail "$module is $file"
		note "$device: $file"
	done
}

# start NAME ARGUMENTS...: runs peer_rdma in the background; its pid is in $pid, its output in /tmp/NAME.
start() {
	local name=$1
	shift
	# No output of an earlier process of this name may be read for that of the new one.
	: >"/tmp/$name"
	case $1 in
	forever | stream | again) revocation_is_refused ;;
	esac
	"$RDMA" "$@" >"/tmp/$name" 2>&1 &
	pid=$!
}

# launch ACTION ARGUMENTS...: as start, under the name of the action, and waits until the process
# has its MRs, or writes.
launch() {
	start "$1" "$@"
	wait_line "/tmp/$1" '^(running|holding)'
}

# tries_again NAME: waits until that process, started with -t, has tried once more from now on to use its
# revoked MR. A try that is going on has begun before. tries NAME: how many it has made.
tries_again() {
	local before
	before=$(tries "$1")
	eventually eval "[ \$(tries $1) -ge $((before + 2)) ]"
}
tries() { grep -c '^denied$' "/tmp/$1" || true; }

# in_core PID: the task runs or waits in a function of the core.
in_core() { grep -qF '[ib_peer_mem]' "/proc/$1/stack"; }

# ended PID: waits for it, WAIT_LIMIT at most; returns its exit status.
ended() {
	eventually gone "$1"
	wait "$1"
}
# unbind_in_time BDF: unbinds it; fails if that takes more than a minute, or if the adapter can
# still reach its BAR.
unbind_in_time() {
	unbind "$1" &
	within 60 gone $!
	wait $!
	no_key_reaches "$1"
}

# took_ms COMMAND...: sets $took.
took_ms() {
	local began=${EPOCHREALTIME/[.,]/}
	"$@"
	took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
}

# make_cgroup NAME [CONTROLLER]...: a control group, /tmp/cgroup/NAME, with these controllers and memory.
make_cgroup() {
	mkdir -p /tmp/cgroup
	mountpoint -q /tmp/cgroup || mount -t cgroup2 none /tmp/cgroup
	grep -qw memory /tmp/cgroup/cgroup.controllers || skip "this kernel has no memory cgroups"
	echo +memory "${@:2}" >/tmp/cgroup/cgroup.subtree_control
	mkdir "/tmp/cgroup/$1"
}

# bind_again BDF SIZE: binds the function again; it then has SIZE bytes.
bind_again() {
	[ ! -e "/sys/bus/pci/devices/$1/driver" ] || unbind "$1"
	bind "$1"
	eventually test -c "$(bar "$1")"
	expect "$2" cat "/sys/bus/pci/devices/$1/p2pmem/size"
}
# is_7_0: the kernel revokes nothing that an importer pins, so edu1 of the test adapter imports as edu0
# does; and dma_map_sg() leaves memory of a BAR without an address, unless the distribution has mended that.
is_7_0() { ! grep -q ' ib_umem_dmabuf_revoke_lock\>' /proc/kallsyms; }
published() { value_of "/sys/bus/pci/devices/$1/p2pmem/published"; }

# lost PID: of all revocations of a process the device, the number of MRs, their bytes, and the cause.
lost() {
	awk -F '\t' -v pid="$1" '$2 == pid { device = $5; mrs += $6; bytes += $7; cause = $9 }
		END { if (mrs) print device, mrs, bytes, cause }' /sys/kernel/debug/ib_peer_mem/revocations
}

# override BDF DRIVER: has this driver bind the function. no_override BDF: unbinds it, and the function
# has no driver.
override() {
	local function=/sys/bus/pci/devices/$1
	echo "$2" >"$function/driver_override"
	[ ! -e "$function/driver" ] || unbind "$1"
	echo "$1" >/sys/bus/pci/drivers_probe
	[ "$(basename "$(readlink "$function/driver")")" = "$2" ]
}
no_override() {
	unbind "$1"
	echo >"/sys/bus/pci/devices/$1/driver_override"
}

# vfio_bind BDF: to vfio-pci. The IOMMU of the guest does not remap interrupts.
vfio_bind() {
	modprobe vfio_iommu_type1 allow_unsafe_interrupts=1
	modprobe vfio-pci
	override "$1" vfio-pci
	eventually eval '[ -c /dev/vfio/[0-9]* ]'
}
