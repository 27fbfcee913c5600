/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the C ABI of peer memory. */
#include <rdma/ib_peer_mem.h>
