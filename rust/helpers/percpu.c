// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/percpu.h. */
#include <linux/cpumask.h>
#include <linux/percpu.h>

#include "helpers.h"

struct counts {
	unsigned long entered, left;
};

static struct counts __percpu *counts_of(struct ext_calls *calls)
{
	return (struct counts __percpu __force *)(unsigned long)calls;
}

struct ext_calls *ext_calls_alloc(void)
{
	return (struct ext_calls __force *)(unsigned long)alloc_percpu(struct counts);
}

void ext_calls_free(struct ext_calls *calls)
{
	free_percpu(counts_of(calls));
}

void ext_calls_enter(struct ext_calls *calls)
{
	this_cpu_inc(counts_of(calls)->entered);
}

void ext_calls_leave(struct ext_calls *calls)
{
	/* Pairs with the one in ext_calls_inside(), whose caller sees the effects of the call. */
	smp_mb();
	this_cpu_inc(counts_of(calls)->left);
}

bool ext_calls_inside(struct ext_calls *calls)
{
	unsigned long entered = 0, left = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		left += READ_ONCE(per_cpu_ptr(counts_of(calls), cpu)->left);
	smp_mb();
	for_each_possible_cpu(cpu)
		entered += READ_ONCE(per_cpu_ptr(counts_of(calls), cpu)->entered);
	return entered != left;
}
