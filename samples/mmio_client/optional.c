// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * An optional dependency on ib_peer_mem
 *
 * A module that calls ib_register_peer_memory_client() directly cannot be loaded without
 * ib_peer_mem. symbol_get() looks for the function when it runs, and pins ib_peer_mem until
 * symbol_put(). So this module needs no Module.symvers of ib_peer_mem, and one build works
 * with and without it. The softdep has modprobe load ib_peer_mem first, if it is installed.
 *
 * If ib_peer_mem is loaded later, load this module again.
 */
#include <linux/module.h>

#include "mmio_client.h"

MODULE_SOFTDEP("pre: ib_peer_mem");

int optional_register(const struct peer_memory_client *client,
		      invalidate_peer_memory *invalidate, void **handle)
{
	typeof(&ib_register_peer_memory_client) do_register;

	do_register = symbol_get(ib_register_peer_memory_client);
	if (!do_register)
		return -ENOENT;
	*handle = do_register(client, invalidate);
	if (*handle)
		return 0;
	symbol_put(ib_register_peer_memory_client);
	return -EINVAL;
}

void optional_unregister(void *handle)
{
	typeof(&ib_unregister_peer_memory_client) unregister;

	unregister = symbol_get(ib_unregister_peer_memory_client);
	/* It is there: optional_register() has pinned the module. */
	if (!WARN_ON(!unregister)) {
		unregister(handle);
		symbol_put(ib_unregister_peer_memory_client);
	}
	symbol_put(ib_register_peer_memory_client);
}
