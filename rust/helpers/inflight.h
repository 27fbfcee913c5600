/* SPDX-License-Identifier: GPL-2.0 */
/* The calls in flight, inline. */
#ifndef EXT_INFLIGHT_H
#define EXT_INFLIGHT_H

#include <linux/completion.h>
#include <linux/percpu-refcount.h>

#include "helpers.h"

struct ext_inflight {
	struct percpu_ref ref;
	/* No call is in flight, and none can enter. */
	struct completion none;
};

/* As ext_inflight_enter(), in an RCU read-side section. */
static __always_inline bool ext_inflight_enter_rcu(struct ext_inflight *calls)
{
	return percpu_ref_tryget_live_rcu(&calls->ref);
}

static __always_inline void ext_inflight_put(struct ext_inflight *calls)
{
	percpu_ref_put(&calls->ref);
}

#endif
