# SPDX-License-Identifier: GPL-2.0
#
# Accesses of the CPU to BARs at any alignment: those of programs, and those of soft RoCE, which copies
# by the CPU. On x86 all of them work. On other architectures the kernel's own mapping permits aligned
# accesses only: there soft RoCE gets no BAR, and programs get a mapping of another kind.

. ./steps.sh
. ./adapter.sh

# Its device is rxe0, whatever the device of the guest is.
RXE=/mnt/programs/peer_rdma

setup() {
	load_rxe
	load_bars
}

test_programs_copy_at_any_offset() {
	expect "all copies are right" /mnt/programs/cpu_copy "$BAR_A"
}

test_soft_roce_gets_no_bar_where_its_copies_fault() {
	log_step bar
	if [ "$(uname -m)" = x86_64 ]; then
		"$RXE" write -o 4099 -l 70001 "$BAR_A"
		no_line
		return
	fi
	expect "registration: EOPNOTSUPP" "$RXE" reg -m 65536 "$BAR_A"
	one_line "client io_peer_mem: cannot serve rxe0: software RDMA copies by the CPU, .*; use an RDMA adapter"
	rejected "	rxe0	io_peer_mem	EOPNOTSUPP	software RDMA copies by the CPU"
	expect "registration: EOPNOTSUPP" "$RXE" reg -m 65536 -o 4096 -l 4096 "$BAR_A"
	balanced
}

# The memory of another client is ordinary memory.
test_soft_roce_gets_ordinary_memory() {
	load_sample
	"$RXE" write -o 4099 -l 70001 "$SAMPLE_DEV"
	"$RXE" write -o 4099 -l 70001 host
	unload_sample
}
