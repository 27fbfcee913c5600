// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro, for the memory abstractions in rust/. */
#include <linux/dma-mapping.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/sched.h>

#include "mm.h"

/*
 * pci_alloc_p2pmem() takes one reference on the page map for the whole block and
 * leaves the pages free. p2pdma_folio_free() gives back one page and one
 * reference: so each page gets a count of 1, and each but the first a reference
 * of its own.
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

struct page *ext_virt_to_page(void *kaddr)
{
	return virt_to_page(kaddr);
}

phys_addr_t ext_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

bool ext_is_pci_p2pdma_page(struct page *page)
{
	return is_pci_p2pdma_page(page);
}

unsigned long ext_pci_resource_flags(struct pci_dev *pdev, int bar)
{
	return pci_resource_flags(pdev, bar);
}

void ext_vma_set_noncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

unsigned int ext_dma_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}
