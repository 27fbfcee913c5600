# SPDX-License-Identifier: GPL-2.0
#
# An MR of more than 4 GiB on the stock mlx5 driver (TOPOLOGY=connectx_large).

. ./steps.sh

SIZE=$(((4 << 30) + 73728))

# From before the 4 GiB to the end of the MR.
test_more_than_4_gib() {
	local offset=$(((4 << 30) - 1001))
	"$RDMA" span -m $SIZE -o $offset -l $((SIZE - offset)) -s 61 "$BAR_A" | tee /tmp/span
	host_has a /tmp/span wrote
	eventually balanced
	expect $((SIZE / 4096)) counter num_dereg_pages
}
