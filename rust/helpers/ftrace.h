/* SPDX-License-Identifier: GPL-2.0 */
/* The marks of tasks, inline. */
#ifndef EXT_FTRACE_H
#define EXT_FTRACE_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>

#include "helpers.h"

static __always_inline unsigned int ext_marks_first_of(unsigned long task)
{
	return hash_long(task, ilog2(EXT_MARKS));
}

/* Enters the current task in ext_bypass_marks. NULL if its first slot is taken. */
static __always_inline struct ext_mark *ext_bypass_begin(void)
{
	unsigned long task = (unsigned long)current, free = 0;
	struct ext_mark *mark = &ext_bypass_marks.slots[ext_marks_first_of(task)];

	return try_cmpxchg_relaxed(&mark->task, &free, task) ? mark : NULL;
}

static __always_inline void ext_mark_clear(struct ext_mark *mark)
{
	WRITE_ONCE(mark->task, 0);
}

#endif
