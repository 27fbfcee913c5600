// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/workqueue.h. */
#include <linux/workqueue.h>

#include "helpers.h"

struct workqueue_struct *ext_alloc_workqueue(const char *name, bool reclaim)
{
	return alloc_workqueue("%s", WQ_UNBOUND | (reclaim ? WQ_MEM_RECLAIM : 0), 0, name);
}
