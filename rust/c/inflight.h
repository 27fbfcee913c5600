/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_INFLIGHT_H
#define EXT_INFLIGHT_H

#include <linux/completion.h>
#include <linux/percpu-refcount.h>

/* Calls in flight, see logic.h. */
struct ext_inflight {
	struct percpu_ref ref;
	/* No call is in flight, and none can enter. */
	struct completion none;
};

#endif
