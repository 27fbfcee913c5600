/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads for the C ABI of include/rdma/ib_peer_mem.h. */
#include <rdma/ib_peer_mem.h>
