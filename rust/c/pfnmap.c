// SPDX-License-Identifier: GPL-2.0
/* What a mapping without struct pages maps. */
#include <linux/mm.h>

#include "logic.h"

/*
 * Returns the number of bytes from @addr on, at most up to @end, that are mapped to
 * consecutive physical addresses, for writing if @write, and sets *@phys to the first one.
 * Returns 0 if nothing is mapped at @addr.
 */
unsigned long ext_pfnmap_run(struct vm_area_struct *vma, unsigned long addr,
			     unsigned long end, bool write, u64 *phys)
{
	unsigned long at = addr;

	while (at < end) {
		struct follow_pfnmap_args args = { .vma = vma, .address = at };
		unsigned long next;
		bool allowed;
		u64 here;

		if (follow_pfnmap_start(&args))
			break;
		here = PFN_PHYS((u64)args.pfn);
		allowed = args.writable || !write;
		/* The entry may be a huge page. */
		next = (at & args.addr_mask) - args.addr_mask;
		follow_pfnmap_end(&args);

		if (!allowed)
			break;
		if (at == addr)
			*phys = here;
		else if (here != *phys + (at - addr))
			break;
		at = min(next, end);
	}
	return at - addr;
}
