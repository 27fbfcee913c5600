// SPDX-License-Identifier: GPL-2.0
/* Linked first into ib_peer_mem: the start of its coverage counters. */
#include <linux/export.h>
#include <linux/types.h>

extern u64 ib_peer_mem_counters_start[];
u64 ib_peer_mem_counters_start[0] __section("__llvm_prf_cnts") __aligned(8);
EXPORT_SYMBOL_GPL(ib_peer_mem_counters_start);
