// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/slab.h. */
#include <linux/compiler.h>
#include <linux/slab.h>

#include "helpers.h"

/*
 * Returns whether the memory cgroup of the caller has room for @bytes. An allocation that
 * exceeds its limit invokes the OOM killer; this one fails.
 */
bool ext_memcg_has_room(unsigned long bytes)
{
	void *probe = kmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	bool has_room = probe != NULL;

	OPTIMIZER_HIDE_VAR(probe);
	kfree(probe);
	return has_room;
}
