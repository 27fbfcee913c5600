# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # for the suites
#
# The test RDMA adapters edu0, edu1, ... (tests/adapter), one for each edu device of the
# guest, and processes with an MR each. Sourced by the suites that use them.

ADAPTER=/sys/kernel/debug
SAMPLE=$MODS/external/samples/peer_client/peer_client_sample.ko
ADAPTER_MR=/mnt/programs/adapter_mr
# Results of adapter_start and adapter_set.
pid='' lkey='' rkey='' addr=''
declare -A ADAPTER_IN ADAPTER_OUT ADAPTER_PID

# load_adapter [MODES]: how edu0, edu1, ... import dma-bufs: dynamic, revocable or
# pinned, separated by commas; the last mode applies to all further devices.
load_adapter() {
	loaded ib_uverbs || modprobe ib_uverbs
	if loaded peer_mem_test_adapter; then rmmod peer_mem_test_adapter; fi
	insmod "$MODS/peer_mem_test_adapter.ko" "modes=${1:-dynamic}"
	eventually adapter_there edu0
}
unload_adapter() {
	! loaded peer_mem_test_adapter || rmmod peer_mem_test_adapter
	must_fail loaded peer_mem_test_adapter
}
# adapter_there DEVICE: succeeds if processes can open it.
adapter_there() {
	local uverbs
	for uverbs in /sys/class/infiniband/"$1"/device/infiniband_verbs/uverbs*; do
		[ ! -c "/dev/infiniband/${uverbs##*/}" ] || return 0
	done
	return 1
}
# adapter_bdf DEVICE: its PCI function.
adapter_bdf() { basename "$(readlink -f "/sys/class/infiniband/$1/device")"; }
# adapter_bind BDF DEVICE: binds the function, and waits until processes can open the device.
adapter_bind() {
	echo "$1" >/sys/bus/pci/drivers/peer_mem_test_adapter/bind
	eventually adapter_there "$2"
}

# adapter_start NAME DEVICE MEMORY OFFSET LENGTH [ACCESS]: starts a process with an MR,
# see adapter_mr's usage. Sets pid, lkey, rkey, addr. If the registration fails it prints
# "error ERRNO" and fails. NAME identifies the process in the functions below.
adapter_start() {
	local name=$1 base=/tmp/adapter.$1 in out line word
	shift
	rm -f "$base.in" "$base.out"
	mkfifo "$base.in"
	: >"$base.out"
	# The fifo is opened for both directions, so that open() does not block.
	exec {in}<>"$base.in" {out}<"$base.out"
	# The process must not inherit the other end of the fifo.
	"$ADAPTER_MR" "$@" <"$base.in" >"$base.out" 2>"$base.err" {in}>&- {out}>&- &
	pid=$!
	ADAPTER_IN[$name]=$in ADAPTER_OUT[$name]=$out ADAPTER_PID[$name]=$pid
	line=$(adapter_answer "$name") || true
	case $line in
	"mr "*) ;;
	*)	printf '%s\n' "$line"
		cat "$base.err"
		adapter_close "$name"
		return 1 ;;
	esac
	adapter_set "$line"
}

# adapter_set LINE: sets lkey, rkey and addr from an answer.
adapter_set() {
	local word
	for word in $1; do
		case $word in
		lkey=*) lkey=${word#*=} ;;
		rkey=*) rkey=${word#*=} ;;
		addr=*) addr=${word#*=} ;;
		esac
	done
}

# adapter_answer NAME: prints the next line of that process. The output is a file,
# whose offset every subshell shares. It is no fifo, because the read of bash with a time limit can
# take the end of a line and then report that the time is up.
adapter_answer() {
	local line='' part end=$((SECONDS + WAIT_LIMIT)) ended=
	while :; do
		if IFS= read -ru "${ADAPTER_OUT[$1]}" part; then
			printf '%s\n' "$line$part"
			return 0
		fi
		line+=$part
		# After the end of the process its last output is still read.
		if [ -n "$ended" ] || [ $SECONDS -ge $end ]; then break; fi
		if gone "${ADAPTER_PID[$1]}"; then ended=1; else nap 0.02; fi
	done
	echo "no answer of $1: $line"
	return 1
}

# adapter_say NAME COMMAND...: prints the answer; fails unless it begins with "ok".
adapter_say() {
	local name=$1 line
	shift
	printf '%s\n' "$*" >&"${ADAPTER_IN[$name]}"
	line=$(adapter_answer "$name") || true
	printf '%s\n' "$line"
	[[ $line = ok* ]]
}

# adapter_do NAME "COMMAND"...: several commands, which succeed.
adapter_do() {
	local command
	for command in "${@:2}"; do adapter_say "$1" "$command"; done
}

# adapter_stop NAME...: deregisters, and waits for the process to end.
adapter_stop() {
	local name rc=0
	for name; do
		adapter_say "$name" quit || rc=1
		wait "${ADAPTER_PID[$name]}" || rc=1
		[ $rc = 0 ] || cat "/tmp/adapter.$name.err"
		adapter_close "$name"
	done
	return $rc
}

# adapter_kill NAME...: ends the process by SIGKILL.
adapter_kill() {
	local name
	for name; do
		kill -9 "${ADAPTER_PID[$name]}"
		wait "${ADAPTER_PID[$name]}" || true
		adapter_close "$name"
	done
}

adapter_close() {
	local in=${ADAPTER_IN[$1]} out=${ADAPTER_OUT[$1]}
	exec {in}>&- {out}>&-
	unset "ADAPTER_IN[$1]" "ADAPTER_OUT[$1]" "ADAPTER_PID[$1]"
}

# adapter_dma DEVICE COMMAND...: one command of tests/adapter/files.rs. Prints ok, or
# prints the errno and fails.
adapter_dma() {
	local device=$1 said
	shift
	if said=$({ printf '%s\n' "$*" >"$ADAPTER/$device/dma"; } 2>&1); then
		echo ok
		return 0
	fi
	case $said in
	*"Invalid argument") echo EINVAL ;;
	*"Permission denied") echo EACCES ;;
	*) printf '%s\n' "$said" ;;
	esac
	return 1
}

# adapter_mrs DEVICE [LKEY]: prints a line for each MR, or for that one.
adapter_mrs() {
	local line
	while read -r line; do
		[[ -n ${2:-} && $line != "lkey=$2 "* ]] || printf '%s\n' "$line"
	done <"$ADAPTER/$1/mrs"
}
# adapter_mr DEVICE LKEY FIELD: prints one field of an MR: mode, state, iova, length,
# access, page_size, dma.
adapter_mr() {
	local word
	for word in $(adapter_mrs "$1" "$2"); do
		[ "${word%%=*}" != "$3" ] || echo "${word#*=}"
	done
}

# to_host DEVICE SEED, from_host DEVICE SEED: by the adapter's DMA the MR of lkey goes to host memory, which
# has the pattern then, or is written from host memory with the pattern. lkey and addr stay.
to_host() { host_copy to "$@"; }
from_host() { host_copy from "$@"; }
host_copy() {
	local key=$lkey at=$addr length
	length=$(adapter_mr "$2" "$lkey" length)
	adapter_start host "$2" host 99 "$length"
	if [ "$1" = to ]; then
		adapter_dma "$2" copy "$key" "$at" "$lkey" "$addr" "$length"
		adapter_say host check "$3"
	else
		adapter_say host fill "$3"
		adapter_dma "$2" copy "$lkey" "$addr" "$key" "$at" "$length"
	fi
	adapter_stop host
	lkey=$key addr=$at
}

# The test exporter of dma-bufs (tests/exporter).
load_exporter() {
	loaded peer_mem_test_exporter || insmod "$MODS/peer_mem_test_exporter.ko"
	eventually test -c /dev/peer_mem_test_exporter
}
# Fails while it is in use.
unload_exporter() {
	eventually no_dma_buf_left
	rmmod peer_mem_test_exporter
}
no_dma_buf_left() {
	[ "$(cat /sys/module/peer_mem_test_exporter/refcnt)" = 0 ] || fail "the test exporter is in use"
}

# Fails while an adapter has an MR, or a dma-buf of the test exporter exists.
nothing_imported() { [ -z "$(cat "$ADAPTER"/edu*/mrs)" ] && no_dma_buf_left; }

# copies DEVICE: the adapter copies from one BAR to the other by DMA.
copies() {
	local from_key from_addr
	adapter_start from "$1" "$BAR_A" 12345 100000
	adapter_say from fill 61
	from_key=$lkey from_addr=$addr
	adapter_start to "$1" "$BAR_B" 777 100000
	adapter_say to fill 62
	adapter_dma "$1" copy "$from_key" "$from_addr" "$lkey" "$addr" 100000
	adapter_say to check 61
	adapter_stop to from
	eventually balanced
}
# load_sample, unload_sample: the client in C, as a persistent client, with the device SAMPLE_DEV. It
# is in use while a region of it is left.
SAMPLE_DEV=/dev/peer_client_sample
load_sample() {
	loaded peer_client_sample || insmod "$SAMPLE" persistent=1
	eventually test -c $SAMPLE_DEV
}
unload_sample() {
	eventually no_sample_regions
	rmmod peer_client_sample
}
no_sample_regions() { balanced peer_client_sample; }
