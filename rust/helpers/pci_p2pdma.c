// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/pci-p2pdma.h. */
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/percpu-refcount.h>
#include <linux/sched.h>

#include "helpers.h"

/*
 * pci_alloc_p2pmem() takes one reference on the page map for the whole block and leaves
 * the page counts at 0. p2pdma_folio_free() frees one page and puts one reference. So this
 * sets each count to 1, and takes one more reference for each page but the first.
 */
void ext_p2p_pages_init(void *kaddr, unsigned long n)
{
	struct percpu_ref *ref = &page_pgmap(virt_to_page(kaddr))->ref;
	unsigned long i;

	for (i = 0; i < n; i++) {
		struct page *page = virt_to_page(kaddr + i * PAGE_SIZE);

		VM_WARN_ON_ONCE_PAGE(page_ref_count(page), page);
		set_page_count(page, 1);
		if (i)
			percpu_ref_get(ref);
		if (!(i % 4096))
			cond_resched();
	}
}

void ext_p2p_pages_put(void *kaddr, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++) {
		put_page(virt_to_page(kaddr + i * PAGE_SIZE));
		if (!(i % 4096))
			cond_resched();
	}
}

/* Returns whether a page has a reference besides that of its owner. */
bool ext_p2p_pages_in_use(void *kaddr, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++) {
		if (page_ref_count(virt_to_page(kaddr + i * PAGE_SIZE)) != 1)
			return true;
		if (!(i % 4096))
			cond_resched();
	}
	return false;
}

bool ext_is_pci_p2pdma_page(struct page *page)
{
	return is_pci_p2pdma_page(page);
}

/* Adds the pages of [@phys, @end), which follow those that @pages covers. */
void ext_p2p_free_add(struct ext_p2p_free *pages, u64 phys, u64 end)
{
	for (; phys < end; phys += PAGE_SIZE) {
		if (page_ref_count(pfn_to_page(PHYS_PFN(phys)))) {
			pages->run = 0;
			continue;
		}
		pages->free++;
		pages->run++;
		pages->largest = max(pages->largest, pages->run);
	}
}
