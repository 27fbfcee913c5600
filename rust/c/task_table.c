// SPDX-License-Identifier: GPL-2.0
/* What is known of tasks. */
#include <linux/atomic.h>

#include "logic.h"
#include "task_table.h"

struct ext_task_entry ext_bypass_tasks[EXT_TASK_SLOTS];

struct ext_task_entry *ext_bypass_enter(unsigned long task)
{
	return ext_bypass_begin(task);
}

void ext_bypass_leave(struct ext_task_entry *entry)
{
	ext_bypass_end(entry);
}

bool ext_bypass_has(unsigned long task)
{
	return READ_ONCE(ext_bypass_tasks[ext_task_slot(task)].task) == task;
}

/* The tasks with values for all owners. */
static struct hlist_bl_head values[EXT_TASK_SLOTS];

void ext_task_value_add(struct ext_task_value *entry, const void *owner, unsigned long task, void *value)
{
	struct hlist_bl_head *head = &values[ext_task_slot(task)];

	entry->owner = owner;
	entry->task = task;
	entry->value = value;
	hlist_bl_lock(head);
	hlist_bl_add_head(&entry->node, head);
	hlist_bl_unlock(head);
}

void ext_task_value_remove(struct ext_task_value *entry)
{
	struct hlist_bl_head *head = &values[ext_task_slot(entry->task)];

	hlist_bl_lock(head);
	hlist_bl_del(&entry->node);
	hlist_bl_unlock(head);
}

void *ext_task_value_of(const void *owner, unsigned long task)
{
	struct hlist_bl_head *head = &values[ext_task_slot(task)];
	struct ext_task_value *entry;
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
