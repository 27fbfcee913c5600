# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's, topology.sh's; lkey and addr are adapter.sh's
#
# Peers and adapters below one PCIe switch, and one adapter elsewhere.

. ./topology.sh

OUTSIDE=${BDF_EDU[0]} NEAR=${BDF_EDU[1]} NEAR_TOO=${BDF_EDU[2]}

TESTS="test_p2pdma test_bus_addresses test_from_bar_to_bar test_outside test_doctor"

test_p2pdma() { p2pdma_says "bus address"; }

# The route crosses a host bridge that the kernel does not trust to route.
test_outside() {
	expect "not supported" answer_of_p2pdma register_and_stop "$(adapter_at "$OUTSIDE")"
	refused "$(adapter_at "$OUTSIDE")"
}

# iopm agrees with p2pdma.
test_doctor() {
	local near outside
	near=$(adapter_at "$NEAR") outside=$(adapter_at "$OUTSIDE")
	must_fail "$IOPM" doctor >/tmp/doctor
	cat /tmp/doctor
	grep -x "  ok    $near, $BDF_A/bar2: distance 4 bus address" /tmp/doctor
	grep "^  warn  $outside, $BDF_A/bar2: the kernel supports no route: they share no bridge" /tmp/doctor
	grep -x "  FAIL  $outside: no route to any memory" /tmp/doctor
	expect 1 grep -c "no route to any memory\|no RDMA device has a route" /tmp/doctor
	"$IOPM" topology | tee /tmp/topology
	grep -E "^$BDF_A/bar2 .*no way" /tmp/topology
}
