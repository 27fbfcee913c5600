# SPDX-License-Identifier: GPL-2.0
#
# The stock mlx5 driver in short form: for the debug kernel, where one removal takes half a minute. A
# revocation, a removal, and dma-bufs of the test exporter that move and are revoked. make soak runs the
# whole suites there.

. ./suites/revoke.sh
. ./suites/mlx5_gone.sh
# Its setup counts.
. ./suites/dmabuf.sh

# shellcheck disable=SC2034 # init's
TESTS="test_unbind_under_a_writer test_moves_under_a_writer test_revoked_under_a_writer
	test_sysfs_remove_and_rescan"
