// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro, for the memory abstractions in rust/. */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/scatterlist.h>
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

/* Does one of our pages have another reference than ours? */
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

/* Goes on where @room ended, with the pages of [@phys, @end). */
void ext_p2p_room_add(struct ext_p2p_room *room, u64 phys, u64 end)
{
	for (; phys < end; phys += PAGE_SIZE) {
		if (page_ref_count(pfn_to_page(PHYS_PFN(phys)))) {
			room->run = 0;
			continue;
		}
		room->free++;
		room->run++;
		room->largest = max(room->largest, room->run);
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

int ext_pci_domain(struct pci_dev *pdev)
{
	return pci_domain_nr(pdev->bus);
}

unsigned int ext_pci_id(struct pci_dev *pdev)
{
	return pci_dev_id(pdev);
}

/* Where a memory BAR lies: [*start, *end). False where there is none. */
bool ext_pci_mem_bar(struct pci_dev *pdev, int bar, u64 *start, u64 *end)
{
	unsigned long flags = pci_resource_flags(pdev, bar);

	if (!(flags & IORESOURCE_MEM) || flags & IORESOURCE_UNSET ||
	    !pci_resource_len(pdev, bar))
		return false;
	*start = pci_resource_start(pdev, bar);
	*end = pci_resource_end(pdev, bar) + 1;
	return true;
}

s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar)
{
	return pci_bus_address(pdev, bar) - pci_resource_start(pdev, bar);
}

bool ext_vma_is_sysfs(struct vm_area_struct *vma)
{
	return vma->vm_file &&
	       file_inode(vma->vm_file)->i_sb->s_magic == SYSFS_MAGIC;
}

/*
 * Bytes from @addr on, at most up to @end, behind which the physical addresses are
 * consecutive and begin with *@phys; 0 where nothing is mapped at @addr.
 */
unsigned long ext_pfnmap_run(struct vm_area_struct *vma, unsigned long addr,
			     unsigned long end, u64 *phys)
{
	unsigned long at = addr;

	while (at < end) {
		struct follow_pfnmap_args args = { .vma = vma, .address = at };
		unsigned long next;
		u64 here;

		if (follow_pfnmap_start(&args))
			break;
		here = PFN_PHYS((u64)args.pfn);
		/* A large page reaches further than one page. */
		next = (at & args.addr_mask) - args.addr_mask;
		follow_pfnmap_end(&args);

		if (at == addr)
			*phys = here;
		else if (here != *phys + (at - addr))
			break;
		at = min(next, end);
		cond_resched();
	}
	return at - addr;
}

/* In both directions, as the rest of the tables. */
int ext_dma_map_mmio(struct device *dev, u64 phys, u32 len, u64 *addr)
{
	*addr = dma_map_resource(dev, phys, len, DMA_BIDIRECTIONAL, 0);
	return dma_mapping_error(dev, *addr) ? -EIO : 0;
}

void ext_dma_unmap_mmio(struct device *dev, struct scatterlist *sg)
{
	dma_unmap_resource(dev, sg_dma_address(sg), sg_dma_len(sg),
			   DMA_BIDIRECTIONAL, 0);
}

void ext_sg_set_mmio(struct scatterlist *sg, u64 addr, u32 len)
{
	sg_set_page(sg, NULL, len, 0);
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
}

void ext_vma_set_noncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

unsigned int ext_dma_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}

static bool redirects(struct pci_dev *bridge)
{
	u16 ctrl = 0;

	if (bridge->acs_cap)
		pci_read_config_word(bridge, bridge->acs_cap + PCI_ACS_CTRL, &ctrl);
	return ctrl & (PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC);
}

/*
 * The rules of drivers/pci/p2pdma.c, which tells only the distance. A device
 * holds its parents, and so the bridges above it.
 */
int ext_pci_path(struct pci_dev *provider, struct device *client)
{
	struct pci_dev *a, *b, *first;
	bool up = false;

	while (client && !dev_is_pci(client))
		client = client->parent;
	if (!client)
		return EXT_PATH_NONE;

	first = to_pci_dev(client);
	for (a = provider; a; a = pci_upstream_bridge(a)) {
		up |= redirects(a);
		for (b = first; b && b != a; b = pci_upstream_bridge(b))
			;
		if (b)
			break;
	}
	if (!a)
		return EXT_PATH_HOST;
	for (b = first; b != a; b = pci_upstream_bridge(b))
		up |= redirects(b);
	return up ? EXT_PATH_REDIRECTED : EXT_PATH_BRIDGES;
}
