# SPDX-License-Identifier: GPL-2.0
#
# The tests that scripts/demo shows, out of the other suites, in its order: on the stock mlx5
# driver with the emulated ConnectX (TOPOLOGY=connectx), then on soft RoCE beside it.

. ./suites/load.sh
. ./suites/rdma.sh
. ./suites/counters.sh
. ./suites/revoke.sh
. ./suites/kill.sh

# shellcheck disable=SC2034 # of steps.sh and init
PERFTEST_RUNS=2 CHAIN=yes

# rxe COMMAND...: on soft RoCE, which has a network device and addresses of its own.
# shellcheck disable=SC2030,SC2034 # it is meant for this subshell
rxe() (
	DEV=rxe0 RDMA=/mnt/programs/peer_rdma RXE_NIC=d1 IP=198.51.100.1
	"$@"
)

setup() {
	load_stack
	rxe load_rxe
}

# shellcheck disable=SC2031 # see rxe
test_mlx5_is_stock() { stock "$DEV" mlx5_core mlx5_ib ib_uverbs ib_core; }
test_rxe_is_stock() { stock rxe0 rdma_rxe; }
test_rxe_perftest_write() { rxe test_perftest_write; }
test_rxe_perftest_read() { rxe test_perftest_read; }
test_rxe_host_sees_the_bytes() { rxe test_host_sees_the_bytes; }
test_rxe_atomics() { rxe test_atomics; }
test_rxe_unbind_under_a_writer() { rxe test_unbind_under_a_writer; }

# cmb FUNCTION: of the SSD's suite, whose tests have the names of others. Its buffer is not
# backed by memory: the DMA of the emulated ConnectX does not reach it.
cmb() ( . ./suites/cmb.sh && rxe "$1" )
test_nvme_is_stock() {
	modprobe nvme
	cmb find_ssd
	cmb test_driver_is_stock
}
test_nvme_write_and_read_back() { cmb test_write_and_read_back; }
test_nvme_from_the_bar_and_back() { cmb test_from_the_bar_and_back; }

ON_MLX5="test_core test_io
	test_perftest_write test_perftest_read
	test_write_and_read_back test_host_sees_the_bytes test_atomics test_bar_to_bar
	test_during test_sigkill_with_mrs test_ranges_are_free_again
	test_unbind_under_a_writer"
# shellcheck disable=SC2034 # init's
TESTS="test_mlx5_is_stock test_rxe_is_stock $ON_MLX5
	test_rxe_perftest_write test_rxe_perftest_read test_rxe_host_sees_the_bytes test_rxe_atomics
	test_rxe_unbind_under_a_writer
	test_nvme_is_stock test_nvme_write_and_read_back test_nvme_from_the_bar_and_back"
