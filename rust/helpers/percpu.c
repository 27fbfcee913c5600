// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/percpu.h. */
#include <linux/cpumask.h>
#include <linux/percpu.h>

#include "helpers.h"
#include "percpu.h"

bool ext_calls_init(struct ext_calls *calls)
{
	calls->counts = (void __force *)(unsigned long)alloc_percpu(struct ext_counts);
	calls->closed = false;
	return calls->counts;
}

void ext_calls_destroy(struct ext_calls *calls)
{
	free_percpu(ext_counts_of(calls));
}

void ext_calls_close(struct ext_calls *calls)
{
	WRITE_ONCE(calls->closed, true);
}

bool ext_calls_enter(struct ext_calls *calls)
{
	if (READ_ONCE(calls->closed))
		return false;
	ext_count_entered(calls);
	return true;
}

void ext_calls_leave(struct ext_calls *calls)
{
	ext_count_left(calls);
}

bool ext_calls_inside(struct ext_calls *calls)
{
	unsigned long entered = 0, left = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		left += READ_ONCE(per_cpu_ptr(ext_counts_of(calls), cpu)->left);
	smp_mb();
	for_each_possible_cpu(cpu)
		entered += READ_ONCE(per_cpu_ptr(ext_counts_of(calls), cpu)->entered);
	return entered != left;
}
