// SPDX-License-Identifier: GPL-2.0
/* Linked last into ib_peer_mem: the end of its coverage counters. */
#include <linux/export.h>
#include <linux/types.h>

extern u64 ib_peer_mem_counters_end[];
u64 ib_peer_mem_counters_end[0] __section("__llvm_prf_cnts") __aligned(8);
EXPORT_SYMBOL_GPL(ib_peer_mem_counters_end);
