// SPDX-License-Identifier: GPL-2.0
/* Tables of tasks, which need no lock. */
#include <linux/atomic.h>

#include "logic.h"
#include "task_table.h"

struct ext_task_table ext_bypass_tasks;

unsigned int ext_task_first_slot(unsigned long task)
{
	return ext_task_first_slot_of(task);
}

struct ext_task_entry *ext_task_table_enter(struct ext_task_table *tasks, unsigned long task)
{
	unsigned int first = ext_task_first_slot_of(task), i;

	for (i = first; i < first + EXT_TASK_PROBES; i++) {
		struct ext_task_entry *entry = &tasks->slots[i % EXT_TASK_SLOTS];
		unsigned long holder = READ_ONCE(entry->task);

		/* The values that this task stores come after those of the former holder of the slot. */
		if (!holder && !cmpxchg_acquire(&entry->task, 0, task))
			return entry;
		if (holder == task)
			return NULL;
	}
	return NULL;
}

void ext_task_table_leave(struct ext_task_entry *entry)
{
	/* Pairs with the cmpxchg of the next holder. */
	smp_store_release(&entry->task, 0);
}

const struct ext_task_entry *ext_task_table_find(const struct ext_task_table *tasks, unsigned long task)
{
	return ext_task_entry_of(tasks, task);
}

/* Unplaced tasks of all owners, by the first slot that a task tries. */
static struct hlist_bl_head unplaced[EXT_TASK_SLOTS];

void ext_unplaced_task_add(struct ext_unplaced_task *entry, const void *owner, unsigned long task,
			   void *value)
{
	struct hlist_bl_head *head = &unplaced[ext_task_first_slot_of(task)];

	entry->owner = owner;
	entry->task = task;
	entry->value = value;
	hlist_bl_lock(head);
	hlist_bl_add_head(&entry->node, head);
	hlist_bl_unlock(head);
}

void ext_unplaced_task_remove(struct ext_unplaced_task *entry)
{
	struct hlist_bl_head *head = &unplaced[ext_task_first_slot_of(entry->task)];

	hlist_bl_lock(head);
	hlist_bl_del(&entry->node);
	hlist_bl_unlock(head);
}

void *ext_unplaced_task_value(const void *owner, unsigned long task)
{
	struct hlist_bl_head *head = &unplaced[ext_task_first_slot_of(task)];
	struct ext_unplaced_task *entry;
	struct hlist_bl_node *node;
	void *value = NULL;

	/* The task sees the entry that the task itself has added. */
	if (hlist_bl_empty(head))
		return NULL;
	hlist_bl_lock(head);
	hlist_bl_for_each_entry(entry, node, head, node) {
		if (entry->owner == owner && entry->task == task) {
			value = entry->value;
			break;
		}
	}
	hlist_bl_unlock(head);
	return value;
}
