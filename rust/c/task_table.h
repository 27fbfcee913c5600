/* SPDX-License-Identifier: GPL-2.0 */
/* The entries of tasks, inline. They have no values, so that no access needs a memory order. */
#ifndef EXT_TASK_TABLE_H
#define EXT_TASK_TABLE_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/log2.h>

#include "logic.h"

static __always_inline unsigned int ext_task_slot(unsigned long task)
{
	return hash_long(task, ilog2(EXT_TASK_SLOTS));
}

/* As ext_bypass_enter(). */
static __always_inline struct ext_task_entry *ext_bypass_begin(unsigned long task)
{
	struct ext_task_entry *entry = &ext_bypass_tasks[ext_task_slot(task)];
	unsigned long free = 0;

	return try_cmpxchg_relaxed(&entry->task, &free, task) ? entry : NULL;
}

static __always_inline void ext_bypass_end(struct ext_task_entry *entry)
{
	WRITE_ONCE(entry->task, 0);
}

#endif
