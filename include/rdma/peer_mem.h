/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Existing drivers include this name. */
#ifndef PEER_MEM_H
#define PEER_MEM_H

#include <rdma/ib_peer_mem.h>

#endif /* PEER_MEM_H */
