# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # pid, lkey, rkey are of tests/guest/adapter.sh
#
# Memory of a GPU, registered by address with the stock mlx5 driver: from cuMemAlloc() to bytes on the wire,
# by userspace/gpu and what stands for CUDA's driver (tests/gpu), whose memory and dma-bufs behave as those of
# nv_dmabuf. It ends a program that frees memory with its name.

. ./steps.sh
. ./adapter.sh

PLAIN=$ADAPTER_MR
ADAPTER_MR=/tmp/adapter_gpu
MIB=1048576

setup() {
	load_stack
	load_modules
	load_exporter
	cat >/tmp/with_gpu <<-END
		#!/bin/sh
		LD_LIBRARY_PATH=/mnt/programs/gpu LD_PRELOAD=/mnt/programs/libiopm-gpu.so exec "\$@"
	END
	printf '#!/bin/sh\nexec /tmp/with_gpu %s "$@"\n' "$PLAIN" >/tmp/adapter_gpu
	chmod +x /tmp/with_gpu /tmp/adapter_gpu
}

# gpu NAME MEMORY SIZE OFFSET LENGTH: a process with so much memory and an MR in it.
gpu() { adapter_start "$1" -x "$(gid_index)" -m "$3" "$DEV" "gpu:$2" "$4" "$5" all; }
transfers() { adapter_do "$1" "write 5" "look 5" "read 5"; }
# end_user: transfers, and frees the memory.
end_user() {
	transfers user
	adapter_do user dereg free
	adapter_stop user
	eventually no_dma_buf_left
}

# each_way SIZE OFFSET LENGTH [:MIB]
each_way() {
	local way
	for way in ${WAYS:-global dlsym dlsym_ptsz proc1 proc2 proc2_ptsz}; do
		gpu user "$way${4:-}" "$1" "$2" "$3" || fail "$way"
		end_user
	done
}
test_allocations() { each_way $((3 * MIB)) 100 300001; }
# Across the seams of three chunks.
test_chunks_of_2_mib() { WAYS="dlsym proc2" each_way $((6 * MIB)) $((2 * MIB - 0x5800)) $((2 * MIB + 0xb001)) :2; }
test_chunks_of_20_mib() { WAYS=dlsym each_way $((40 * MIB)) $((20 * MIB - 100001)) 200003 :20; }

# No registration fails while the range grows and shrinks.
test_growth() {
	gpu user dlsym:2 $((2 * MIB)) 100 5000
	expect "ok failures=0" adapter_say user churn "$([ "$KIND" = debug ] && echo 100 || echo 500)"
	adapter_do user "map-chunk 1" "map-chunk 3" "map-chunk 2" dereg
	adapter_say user reg 100 $((8 * MIB - 200))
	end_user
}

# An MR keeps its memory; a new one finds the hole, with its address in the list for root.
test_hole() {
	local addr
	gpu user dlsym:2 $((6 * MIB)) 0 $((6 * MIB))
	adapter_do user "write 7" "unmap-chunk 1" "read 7" dereg
	logs_one "$DEV: $((2 * MIB)) of $((6 * MIB)) bytes are of the dma-buf peer_mem_test_exporter [0-9]+, then comes none: " \
		expect "error EFAULT" adapter_say user reg
	rejected "	the range is not named .*: dma-buf peer_mem_test_exporter [0-9]+ before 0x[0-9a-f]+, none from there on$"
	rejected "before $(printf '%#x' $((addr + 2 * MIB))), "
	adapter_say user reg 100 $((2 * MIB - 100))
	transfers user
	adapter_say user dereg
	adapter_say user reg $((4 * MIB)) $((2 * MIB))
	transfers user
	adapter_do user dereg "map-chunk 1"
	adapter_say user reg 1 $((6 * MIB - 1))
	end_user
}

# state_is STATE: of the MR.
state_is() { [ "$(awk -F '\t' '$3 == "import" { print $10 }' "$REGIONS")" = "$1" ]; }

# An MR that outlives its memory keeps the memory, as on a GPU, and the list says so: not of one whose range has
# grown, and got another dma-buf.
test_kept() {
	gpu user dlsym:2 $((2 * MIB)) 0 5000
	adapter_do user "map-chunk 1"
	state_is live
	adapter_do user "write 9" free "read 9"
	state_is unnamed
	must_fail no_dma_buf_left
	adapter_say user dereg
	eventually no_dma_buf_left
	adapter_stop user
}

# What the tests rely on: no mapping shows such a dma-buf, and only peer-to-peer importers get it.
test_dma_buf_is_that_of_a_gpu() {
	# errno 524.
	expect "error UNKNOWN" adapter_start none -s whole "$DEV" mapped:test:gpu=1 0 65536
	adapter_start user -x "$(gid_index)" -s none "$DEV" named:test:gpu=1 0 65536
	adapter_do user "write 3" "look 3"
	adapter_stop user
	expect "error EOPNOTSUPP" adapter_start none -s none "$DEV" named:test:gpu=1,attach-error=524 0 65536
	eventually no_dma_buf_left
}

# The same library registers by the dma-buf, by whatever function the program registers, where the modules are not loaded.
test_without_the_modules() {
	local by
	unload_modules
	must_fail test -e /dev/ib_peer_mem
	ADAPTER_MR=$PLAIN LD_LIBRARY_PATH=/mnt/programs/gpu \
		expect "error EFAULT" gpu none dlsym $MIB 0 4096
	for by in '' dlsym ibv_reg_mr iova iova2; do
		[ -z "$by" ] || export REG=$by
		WAYS=proc2 each_way $((3 * MIB)) 100 300001
	done
	unset REG
	test_chunks_of_20_mib
	# Host memory is that of the driver.
	adapter_start user -x "$(gid_index)" "$DEV" host 100 5000
	adapter_do user "write 5" "read 5"
	adapter_stop user
	load_modules
}
