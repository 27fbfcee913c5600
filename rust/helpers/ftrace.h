/* SPDX-License-Identifier: GPL-2.0 */
/* The entries of tasks, inline. */
#ifndef EXT_FTRACE_H
#define EXT_FTRACE_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>

#include "helpers.h"

static __always_inline unsigned int ext_task_first_slot_of(unsigned long task)
{
	return hash_long(task, ilog2(EXT_TASK_SLOTS));
}

/*
 * Enters the current task in ext_bypass_tasks. NULL if its first slot is taken. The entries of this table
 * have no values, so that neither the entry nor ext_task_entry_clear() needs a memory order.
 */
static __always_inline struct ext_task_entry *ext_bypass_begin(void)
{
	unsigned long task = (unsigned long)current, free = 0;
	struct ext_task_entry *entry = &ext_bypass_tasks.slots[ext_task_first_slot_of(task)];

	return try_cmpxchg_relaxed(&entry->task, &free, task) ? entry : NULL;
}

static __always_inline void ext_task_entry_clear(struct ext_task_entry *entry)
{
	WRITE_ONCE(entry->task, 0);
}

#endif
