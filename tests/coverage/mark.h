/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PEER_MEM_COVERAGE_MARK_H
#define PEER_MEM_COVERAGE_MARK_H

#include <linux/export.h>
#include <linux/types.h>

/* The start or the end of the coverage counters of a module, for collect.c. */
#define COUNTERS_MARK(name)							\
	extern u64 name[];							\
	u64 name[0] __section("__llvm_prf_cnts") __aligned(8);			\
	EXPORT_SYMBOL_GPL(name)

#endif
