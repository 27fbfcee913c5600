# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # card.sh's
#
# The stock mlx5 driver on a function without on-demand paging, as some virtual functions are:
# it refuses to import dma-bufs, and the umem backend serves its MRs. For
# TOPOLOGY=connectx_no_odp.

KIT=/mnt/tree/samples/peer_client
. ./adapter.sh
. ./card.sh

DEVICES=/sys/kernel/debug/ib_peer_mem/devices

TESTS="test_backend test_client test_import_is_refused test_unload"

test_backend() {
	ibv_devinfo -d "$DEV" -v | tee /tmp/devinfo
	grep -q general_odp_caps /tmp/devinfo
	must_fail grep -w ODP_SUPPORT /tmp/devinfo
	expect "umem no" eval "awk -v dev=$DEV '\$1 == dev { print \$3, \$4 }' $DEVICES"
	log_all | grep "ib_peer_mem: $DEV: serves peer memory by umem"
}

# A client that does not require invalidation.
test_client() {
	insmod "$FILE" persistent=1
	eventually test -c "$MEMORY"
	"$RDMA" write -o 100 -l 50000 "$MEMORY"
	"$RDMA" atomic -o 8 -l 4096 "$MEMORY"
	expect 2 client num_alloc_mrs
	client_balanced
}

# Why the backend is not dma-buf.
test_import_is_refused() {
	! faults_need_on_demand || skip "this kernel's driver imports without on-demand paging"
	expect "error EOPNOTSUPP" adapter_start one "$DEV" "export:$MEMORY" 0 4096
	client_balanced
}

test_unload() {
	eventually client_balanced
	rmmod "$CLIENT"
	[ ! -e "$PEERS/$CLIENT" ]
}
