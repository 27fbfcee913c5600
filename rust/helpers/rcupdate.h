/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/rcupdate.h>

/* Otherwise the grace period does not wait for a preempted task in a module's function. */
#if defined(CONFIG_PREEMPTION) && !defined(CONFIG_TASKS_RCU)
#error "ib_peer_mem needs CONFIG_TASKS_RCU on a preemptible kernel"
#endif

static inline void ext_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}
