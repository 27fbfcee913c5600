// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/sched.h. */
#include <linux/sched.h>

#include "helpers.h"

bool ext_current_is_kthread(void)
{
	return current->flags & PF_KTHREAD;
}
