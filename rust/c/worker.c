// SPDX-License-Identifier: GPL-2.0
/* A call in a kernel thread. */
#include <linux/completion.h>
#include <linux/lockdep.h>
#include <linux/workqueue.h>

#include "logic.h"

struct ext_call {
	struct work_struct work;
	struct completion done;
	void (*function)(void *arg);
	void *arg;
};

static void ext_call_run(struct work_struct *work)
{
	struct ext_call *call = container_of(work, struct ext_call, work);

	call->function(call->arg);
	/* The last access: the caller may return, and @call is on the caller's stack. */
	complete(&call->done);
}

void ext_call_in_worker(void (*function)(void *arg), void *arg, struct lock_class_key *key)
{
	struct ext_call call = { .function = function, .arg = arg };

	init_completion(&call.done);
	INIT_WORK_ONSTACK_KEY(&call.work, ext_call_run, key);
	queue_work(system_dfl_wq, &call.work);
	/*
	 * flush_work() would make the worker execute another work item, so wait for the completion.
	 * For lockdep, annotate the wait like flush_work().
	 */
	lock_map_acquire(&call.work.lockdep_map);
	lock_map_release(&call.work.lockdep_map);
	wait_for_completion(&call.done);
	destroy_work_on_stack(&call.work);
}
