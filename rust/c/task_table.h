/* SPDX-License-Identifier: GPL-2.0 */
/* The entries of tasks, inline. */
#ifndef EXT_TASK_TABLE_H
#define EXT_TASK_TABLE_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>

#include "logic.h"

static __always_inline unsigned int ext_task_first_slot_of(unsigned long task)
{
	return hash_long(task, ilog2(EXT_TASK_SLOTS));
}

/* As ext_task_table_find(). */
static __always_inline const struct ext_task_entry *ext_task_entry_of(const struct ext_task_table *tasks,
								unsigned long task)
{
	unsigned int first = ext_task_first_slot_of(task), i;

	/* Only the task itself enters or removes @task, so the look-up needs no memory order. */
	for (i = first; i < first + EXT_TASK_PROBES; i++) {
		const struct ext_task_entry *entry = &tasks->slots[i % EXT_TASK_SLOTS];

		if (READ_ONCE(entry->task) == task)
			return entry;
	}
	return NULL;
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
