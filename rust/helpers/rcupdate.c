// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/rcupdate.h. */
#include <linux/rcupdate.h>

#include "helpers.h"

void ext_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}
