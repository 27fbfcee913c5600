/* SPDX-License-Identifier: GPL-2.0 */
/* The counts of struct ext_calls. */
#ifndef EXT_PERCPU_H
#define EXT_PERCPU_H

#include <linux/percpu.h>

#include "helpers.h"

struct ext_counts {
	unsigned long entered, left;
};

static __always_inline struct ext_counts __percpu *ext_counts_of(const struct ext_calls *calls)
{
	return (struct ext_counts __percpu __force *)(unsigned long)calls->counts;
}

static __always_inline void ext_count_entered(struct ext_calls *calls)
{
	this_cpu_inc(ext_counts_of(calls)->entered);
}

static __always_inline void ext_count_left(struct ext_calls *calls)
{
	/* Pairs with ext_calls_inside(), whose caller then sees the effects of the call. */
	smp_mb();
	this_cpu_inc(ext_counts_of(calls)->left);
}

#endif
