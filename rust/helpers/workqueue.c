// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/workqueue.h. */
#include <linux/workqueue.h>

#include "helpers.h"

struct ext_call {
	struct work_struct work;
	void (*function)(void *arg);
	void *arg;
};

static void ext_call_run(struct work_struct *work)
{
	struct ext_call *call = container_of(work, struct ext_call, work);

	call->function(call->arg);
}

void ext_call_in_worker(void (*function)(void *arg), void *arg, struct lock_class_key *key)
{
	struct ext_call call = { .function = function, .arg = arg };

	INIT_WORK_ONSTACK_KEY(&call.work, ext_call_run, key);
	queue_work(system_dfl_wq, &call.work);
	flush_work(&call.work);
	destroy_work_on_stack(&call.work);
}
