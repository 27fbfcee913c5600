// SPDX-License-Identifier: GPL-2.0
/*
 * The symbols that clients link against. Some clients look the symbols up by
 * symbol_get(), which accepts only GPL symbols.
 */
#include <linux/export.h>
#include <linux/module.h>
#include <rdma/ib_peer_mem.h>

EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);
EXPORT_SYMBOL_GPL(ib_peer_mem_set_hint);
EXPORT_SYMBOL_GPL(ib_peer_mem_clear_hint);

MODULE_VERSION(PEER_MEM_VERSION);
