# SPDX-License-Identifier: GPL-2.0
#
# Peer-to-peer memory of another driver: the controller memory buffer of an SSD, under
# the stock nvme driver. Processes map it from p2pmem/allocate in sysfs.

. ./steps.sh

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
bind_ssd() {
	echo "$BDF_SSD" >/sys/bus/pci/drivers/nvme/bind
	find_ssd
}

setup() {
	load_stack
	load_bars
	[ "${TESTS:-}" = no_nvme ] || load_ssd
}

# The debug kernel is built without nvme, and not every guest has an SSD.
# shellcheck disable=SC2034 # init's
[ -n "${BDF_SSD:-}" ] && modprobe -qn nvme || TESTS=no_nvme
no_nvme() { [ -n "${BDF_SSD:-}" ] || skip "no SSD in this guest"; skip "this kernel has no nvme"; }

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
	# The free memory is the same as before the tests.
	cmp "$SSD/p2pmem/available" /tmp/available
	note "RDMA into the SSD's buffer: $(cat /tmp/write)"
}

test_from_the_bar_and_back() {
	"$RDMA" copy -o 321 -l 500000 -s 53 "$BAR_A" "$CMB" | tee /tmp/copy
	host_has a /tmp/copy from
	"$RDMA" copy -o 321 -l 500000 -s 54 "$CMB" "$BAR_A" | tee /tmp/copy
	host_has a /tmp/copy to
}

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

test_unbind_under_a_writer() {
	local pid before
	before=$(counter num_free_callbacks)
	launch forever -m $((8 << 20)) -t 600 "$CMB"
	unbind_in_time "$BDF_SSD"
	[ ! -e "$SSD/driver" ]
	[ ! -e "$SSD/p2pmem" ]
	wait_line /tmp/forever 'remote access error'
	# The writer continues with the keys of its revoked MR.
	tries_again forever
	kill "$pid"
	ended "$pid"
	grep 'still revoked' /tmp/forever
	balanced
	[ "$(counter num_free_callbacks)" -gt "$before" ]
	bind_ssd
}
