// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/percpu.h. */
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include "helpers.h"

struct counts {
	unsigned long entered, left;
};

static struct counts __percpu *counts_of(const struct ext_calls *calls)
{
	return (struct counts __percpu __force *)(unsigned long)calls->counts;
}

bool ext_calls_init(struct ext_calls *calls)
{
	calls->counts = (void __force *)(unsigned long)alloc_percpu(struct counts);
	calls->closed = false;
	return calls->counts;
}

void ext_calls_destroy(struct ext_calls *calls)
{
	free_percpu(counts_of(calls));
}

void ext_calls_close(struct ext_calls *calls)
{
	WRITE_ONCE(calls->closed, true);
}

static __always_inline bool enter(struct ext_calls *calls)
{
	if (READ_ONCE(calls->closed))
		return false;
	this_cpu_inc(counts_of(calls)->entered);
	return true;
}

bool ext_calls_enter(struct ext_calls *calls)
{
	return enter(calls);
}

struct ext_gates *ext_gates_enter(void *const *slot, const void *owner, unsigned int gate)
{
	struct ext_gates *gates;

	/* An RCU read-side section, at a fraction of the cost of rcu_read_lock() in Rust. */
	preempt_disable();
	gates = smp_load_acquire(slot);
	if (gates && (gates->owner != owner || !enter(&gates->gates[gate])))
		gates = NULL;
	preempt_enable();
	return gates;
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
