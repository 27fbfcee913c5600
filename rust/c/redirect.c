// SPDX-License-Identifier: GPL-2.0
/* Redirections of kernel functions by ftrace. */
#include <linux/err.h>
#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "logic.h"
#include "task_table.h"

static unsigned long trial_task;

void ext_trial_begin(unsigned long task)
{
	WRITE_ONCE(trial_task, task);
}

bool ext_trial_is(unsigned long task)
{
	return READ_ONCE(trial_task) == task;
}

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS

struct ext_redirection {
	struct ftrace_ops ops;
	unsigned int count;
	struct ext_redirect list[] __counted_by(count);
};

static void notrace ext_redirect_call(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct ext_redirection *this = container_of(ops, struct ext_redirection, ops);
	unsigned long task = (unsigned long)current, nearest = ULONG_MAX, to = 0;
	unsigned int i;

	/* Most calls are for an MR of host memory. */
	if (likely(READ_ONCE(ext_bypass_tasks[ext_task_slot(task)].task) == task))
		return;
	/* The replacement calls the original by name. All code of this module is in this section. */
	if (within_module_mem_type(parent_ip, THIS_MODULE, MOD_TEXT) && READ_ONCE(trial_task) != task)
		return;
	/* ip is a few bytes behind the function's address. The distance depends on the CPU. */
	for (i = 0; i < this->count; i++) {
		unsigned long distance = ip - this->list[i].from;

		if (distance < nearest) {
			nearest = distance;
			to = this->list[i].to;
		}
	}
	ftrace_regs_set_instruction_pointer(fregs, to);
}

struct ext_redirection *ext_ftrace_redirect(const struct ext_redirect *list, unsigned int count)
{
	struct ext_redirection *this = kzalloc(struct_size(this, list, count), GFP_KERNEL);
	unsigned int i;
	int err = 0;

	if (!this)
		return ERR_PTR(-ENOMEM);
	this->count = count;
	this->ops.func = ext_redirect_call;
	/*
	 * PERMANENT: while the redirection is registered, the kernel rejects a write of 0 to the
	 * sysctl ftrace_enabled. Without RECURSION: ext_redirect_call() calls no function, so
	 * ftrace need not protect against recursion.
	 */
	this->ops.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT;
	for (i = 0; i < count && !err; i++) {
		this->list[i] = list[i];
		err = ftrace_set_filter_ip(&this->ops, list[i].from, 0, 0);
	}
	if (!err)
		err = register_ftrace_function(&this->ops);
	if (err) {
		ftrace_free_filter(&this->ops);
		kfree(this);
		return ERR_PTR(err);
	}
	return this;
}

int ext_ftrace_restore(struct ext_redirection *this)
{
	/* Fails only if ftrace has disabled itself after an internal error. */
	int err = unregister_ftrace_function(&this->ops);

	if (err)
		return err;
	ftrace_free_filter(&this->ops);
	kfree(this);
	return 0;
}

#else

struct ext_redirection *ext_ftrace_redirect(const struct ext_redirect *list, unsigned int count)
{
	return ERR_PTR(-EOPNOTSUPP);
}

int ext_ftrace_restore(struct ext_redirection *this)
{
	return 0;
}

#endif
