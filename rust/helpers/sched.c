// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/sched.h. */
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "helpers.h"

bool ext_current_is_kthread(void)
{
	return current->flags & PF_KTHREAD;
}

unsigned int ext_memalloc_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

void ext_memalloc_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}
