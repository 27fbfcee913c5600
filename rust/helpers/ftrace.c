// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/ftrace.h. */
#include <linux/err.h>
#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "helpers.h"

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
	unsigned long nearest = ULONG_MAX, to = 0;
	unsigned int i;

	/* The replacement calls the original by its name. All of its code is in this section. */
	if (within_module_mem_type(parent_ip, THIS_MODULE, MOD_TEXT))
		return;
	/* ip is a few bytes behind the function's address, how many depends on the CPU. */
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
	 * PERMANENT: kernels whose sysctl ftrace_enabled disables ftrace refuse that meanwhile. Without
	 * RECURSION: ext_redirect_call() calls no function, so ftrace need not protect it.
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

void ext_ftrace_restore(struct ext_redirection *this)
{
	/* Fails only if ftrace has disabled itself after an error of its own. */
	if (WARN_ON(unregister_ftrace_function(&this->ops)))
		return;
	ftrace_free_filter(&this->ops);
	kfree(this);
}

#else

struct ext_redirection *ext_ftrace_redirect(const struct ext_redirect *list, unsigned int count)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void ext_ftrace_restore(struct ext_redirection *this)
{
}

#endif
