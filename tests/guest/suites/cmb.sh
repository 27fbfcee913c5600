# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # lkey and addr are of tests/guest/adapter.sh
#
# Peer-to-peer memory of another driver: the controller memory buffer of an SSD, under
# the stock nvme driver. Processes map it from p2pmem/allocate in sysfs.

. ./steps.sh
. ./adapter.sh

SSD=/sys/bus/pci/devices/$BDF_SSD
CMB=$SSD/p2pmem/allocate

# The driver uses some of the buffer for its queues.
find_ssd() {
	eventually test -e "$CMB"
	eventually test -b /dev/nvme0n1
	cat "$SSD/p2pmem/available" >/tmp/available
}
# Another suite of this boot may have left the SSD without a driver. The driver probes it in the
# background, so that the two may meet.
load_ssd() {
	modprobe nvme
	[ -e "$SSD/driver" ] || echo "$BDF_SSD" >/sys/bus/pci/drivers/nvme/bind || true
	find_ssd
}
# The free memory is the same as before the tests.
all_free() { cmp "$SSD/p2pmem/available" /tmp/available; }
bind_ssd() {
	echo "$BDF_SSD" >/sys/bus/pci/drivers/nvme/bind
	find_ssd
}

setup() {
	load_stack
	load_bars
	[ "${TESTS:-}" = no_nvme ] || load_ssd
}
before_test() {
	load_bars
	[ "${TESTS:-}" = no_nvme ] || loaded nvme || load_ssd
}

# The debug kernel is built without nvme, and not every guest has an SSD.
# shellcheck disable=SC2034 # init's
[ -n "${BDF_SSD:-}" ] && modprobe -qn nvme || TESTS=no_nvme
no_nvme() { skip "no SSD, or no nvme"; }

test_driver_is_stock() {
	readlink "$SSD/driver" | grep '/nvme$'
	modinfo -F filename nvme | grep "^/lib/modules/$(uname -r)/kernel/drivers/nvme/"
	note "nvme of the distribution, controller memory buffer of $(($(cat "$SSD/p2pmem/size") >> 20)) MiB"
}

test_write_and_read_back() {
	local before
	before=$(counter num_alloc_mrs)
	"$RDMA" write -o 12345 -l 654321 -s 52 "$CMB" | tee /tmp/write
	expect $((before + 1)) counter num_alloc_mrs
	balanced
	all_free
	note "RDMA into the SSD's buffer: $(cat /tmp/write)"
}

test_from_the_bar_and_back() {
	"$RDMA" copy -o 321 -l 500000 -s 53 "$BAR_A" "$CMB" | tee /tmp/copy
	host_has a /tmp/copy from
	"$RDMA" copy -o 321 -l 500000 -s 54 "$CMB" "$BAR_A" | tee /tmp/copy
	host_has a /tmp/copy to
}

# The disk has only zeros, and no byte of its buffer or of a BAR.
test_the_ssd_still_works() {
	dd if=/dev/nvme0n1 of=/tmp/read bs=1M count=16 iflag=direct
	cmp -n $((16 << 20)) /tmp/read /dev/zero
	rm /tmp/read
}

# refused ARGUMENTS...: EFAULT and one log line of io_peer_mem, and no leak.
refused() {
	logs_one "io_peer_mem: $BDF_SSD: BAR 2: cannot register" expect "registration: EFAULT" "$RDMA" reg "$@"
	balanced
	all_free
}

test_read_only_mapping() { refused -R -a lw "$CMB"; }

test_ends_past_the_mapping() { refused -m 65536 -o 4096 -l 1048576 "$CMB"; }

# The range goes on into memory whose page faults wait for the process, which never answers.
test_memory_that_is_never_served() {
	local pid
	log_step "unserved"
	start unserved reg -U -m 65536 -l 65536 "$CMB"
	eventually answered_or_waits "$pid"
	unbind_in_time "$BDF_SSD"
	ended "$pid"
	grep -x 'registration: EFAULT' /tmp/unserved
	one_line "io_peer_mem: $BDF_SSD: BAR 2: cannot register"
	balanced
	bind_ssd
}
answered_or_waits() { gone "$1" || grep -q handle_userfault "/proc/$1/stack"; }

test_continues_in_other_memory() {
	expect "registration: ok" "$RDMA" reg -J -m 65536 -l 131072 "$CMB"
	refused -J -m 65536 -l 65537 "$CMB" "$BAR_A"
	refused -J -m 65536 -l 131072 "$CMB" host
	# The other way round.
	logs_one "io_peer_mem $BDF_A: BAR 2: cannot register" \
		expect "registration: EFAULT" "$RDMA" reg -J -m 65536 -l 65537 "$BAR_A" "$CMB"
	balanced
	all_free
}

test_unbind_under_a_writer() {
	local pid took before
	before=$(counter num_free_callbacks)
	launch forever -m $((8 << 20)) -t 60 "$CMB"
	took_ms unbind_in_time "$BDF_SSD"
	note "unbind of nvme under a running writer returned after $took ms"
	[ ! -e "$SSD/driver" ]
	[ ! -e "$SSD/p2pmem" ]
	wait_line /tmp/forever 'remote access error'
	# The writer continues with the keys of its revoked MR.
	tries_again forever
	kill "$pid"
	ended "$pid"
	note "the writer: $(grep 'remote access' /tmp/forever), $(grep 'still revoked' /tmp/forever)"
	balanced
	[ "$(counter num_free_callbacks)" -gt "$before" ]
	bind_ssd
}

# By the DMA of an adapter, whose key is dead when the driver of the buffer goes.
test_adapter_with_dma() {
	load_adapter
	adapter_start buffer edu0 -m $((1 << 20)) "$CMB" 12345 20001
	from_host edu0 51
	to_host edu0 51
	unbind_in_time "$BDF_SSD"
	expect EACCES adapter_dma edu0 "read $lkey $addr 16"
	adapter_stop buffer
	balanced
	unload_adapter
	bind_ssd
}

# No file of io_peer_mem is open, so the module is not pinned.
test_client_removed_with_mrs() {
	local pid
	launch forever "$CMB"
	timeout 60 rmmod io_peer_mem
	ended "$pid"
	load_bars
	"$RDMA" write "$CMB"
}

test_unload_nvme() {
	rmmod nvme
	"$RDMA" write "$BAR_A"
	modprobe nvme
	find_ssd
	rmmod nvme
}
