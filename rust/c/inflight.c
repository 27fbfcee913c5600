// SPDX-License-Identifier: GPL-2.0
/* Calls in flight, counted by each CPU. */
#include <linux/percpu-refcount.h>
#include <linux/slab.h>

#include "logic.h"
#include "inflight.h"

static void ext_inflight_release(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct ext_inflight, ref)->none);
}

struct ext_inflight *ext_inflight_new(void)
{
	struct ext_inflight *calls = kzalloc(sizeof(*calls), GFP_KERNEL);

	if (!calls)
		return NULL;
	init_completion(&calls->none);
	if (percpu_ref_init(&calls->ref, ext_inflight_release, 0, GFP_KERNEL)) {
		kfree(calls);
		return NULL;
	}
	return calls;
}

void ext_inflight_free(struct ext_inflight *calls)
{
	percpu_ref_exit(&calls->ref);
	kfree(calls);
}

void ext_inflight_close(struct ext_inflight *calls)
{
	percpu_ref_kill(&calls->ref);
	/* A call may wait for a page of a user, which is no reason to report a hung task. */
	while (!wait_for_completion_timeout(&calls->none, 10 * HZ))
		;
}
