# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Each device below a separate root port, and a host bridge that may not route.

. ./topology.sh

NEAR=${BDF_EDU[0]} NEAR_TOO=${BDF_EDU[1]}

TESTS="test_layout test_p2pdma test_refused test_adapter_still_works test_peer_still_works"

test_p2pdma() { p2pdma_says "not supported"; }

test_refused() {
	refused "$(adapter_at "$NEAR")"
	# The kernel logs its line once; ours is logged each time.
	refused "$(adapter_at "$NEAR")"
	refused "$(adapter_at "$NEAR_TOO")"
}

# The adapter still reaches host memory.
test_adapter_still_works() {
	local device
	device=$(adapter_at "$NEAR")
	adapter_start h "$device" host 0 5000
	adapter_say h fill 41
	to_host "$device" 41
	adapter_stop h
}

# No page is lost: a software device can use the whole BAR.
test_peer_still_works() {
	load_stack
	"$RDMA" reg -m "$SIZE_A" "$BAR_A" | grep -x 'registration: ok'
	"$RDMA" write -o "$OFFSET" -l "$LENGTH" -s 42 "$BAR_A"
	ask_host pattern a "$OFFSET" "$LENGTH" 42
	eventually balanced
}
