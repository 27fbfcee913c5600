// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/pci-p2pdma.h. */
#include <linux/io.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/percpu-refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "helpers.h"

#define PAGES_PER_RESCHED 4096

static struct page *page_at(u64 phys, unsigned long i)
{
	return pfn_to_page(PHYS_PFN(phys) + i);
}

static struct percpu_ref *map_of(u64 phys)
{
	return &page_pgmap(page_at(phys, 0))->ref;
}

/*
 * pci_alloc_p2pmem() takes one reference on the page map for a whole block and leaves the
 * page counts at 0. p2pdma_folio_free(), for the last reference of a page, gives the page
 * back to the pool and puts one reference on the page map. So this takes one for each page.
 */
void ext_p2p_pages_init(u64 phys, unsigned long n)
{
	unsigned long i;

	percpu_ref_get_many(map_of(phys), n);
	for (i = 0; i < n; i++) {
		struct page *page = page_at(phys, i);

		VM_WARN_ON_ONCE_PAGE(page_ref_count(page), page);
		set_page_count(page, 1);
		if (!(i % PAGES_PER_RESCHED))
			cond_resched();
	}
}

/*
 * Undoes ext_p2p_pages_init() up to the first page that has another reference. Returns the
 * number of pages.
 */
unsigned long ext_p2p_pages_take(u64 phys, unsigned long n)
{
	struct percpu_ref *ref = map_of(phys);
	unsigned long i;

	for (i = 0; i < n; i++) {
		if (!page_ref_freeze(page_at(phys, i), 1))
			break;
		if (!(i % PAGES_PER_RESCHED))
			cond_resched();
	}
	if (i)
		percpu_ref_put_many(ref, i);
	return i;
}

/* The page returns to the kernel's pool with its last reference. */
void ext_p2p_page_put(u64 phys)
{
	put_page(page_at(phys, 0));
}

/* Returns whether a page has a reference besides that of its owner. */
bool ext_p2p_pages_in_use(u64 phys, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++) {
		if (page_ref_count(page_at(phys, i)) != 1)
			return true;
		if (!(i % PAGES_PER_RESCHED))
			cond_resched();
	}
	return false;
}

#define PAGES_PER_CLEAR 512

/* The uncached mapping that devm_memremap_pages() made. */
static void __iomem *io_at(u64 phys)
{
	return (void __iomem *)page_to_virt(page_at(phys, 0)) + offset_in_page(phys);
}

static void clear_words(void __iomem *at, unsigned long len)
{
	void __iomem *end = at + len;

	for (; at < end; at += sizeof(u64))
		__raw_writeq(0, at);
}

/*
 * Writes zeros to pages, by the widest stores of the CPU. If @combine, through a mapping that
 * combines them to longer writes on the bus, unless there is no memory for one. The pages are
 * zero for every device when this returns.
 */
void ext_p2p_clear(u64 phys, unsigned long n, bool combine)
{
	struct page **pages = NULL;
	unsigned long i, k, j;

	if (combine)
		pages = kmalloc_array(PAGES_PER_CLEAR, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	for (i = 0; i < n; i += k) {
		void *at = NULL;

		k = min(n - i, (unsigned long)PAGES_PER_CLEAR);
		for (j = 0; pages && j < k; j++)
			pages[j] = page_at(phys, i + j);
		if (pages)
			at = vmap(pages, k, VM_MAP, pgprot_writecombine(PAGE_KERNEL));
		clear_words(at ? (void __iomem *)at : io_at(phys + i * PAGE_SIZE), k * PAGE_SIZE);
		/* Before the read below, and before the mapping goes. */
		wmb();
		if (at)
			vunmap(at);
		cond_resched();
	}
	kfree(pages);
	/* Writes on the bus are posted: a read waits for them. */
	readl(io_at(phys + n * PAGE_SIZE - sizeof(u32)));
}

/* The bytes at @at, @len at most, before the first aligned word. */
static unsigned long before_word(const void __iomem *at, unsigned long len)
{
	return min(len, -(unsigned long)at % sizeof(u64));
}

/*
 * Copies by the CPU, not over the end of a page. Each byte is accessed once, in aligned words of 8
 * bytes as far as there are any: memcpy_fromio() would split a value that a device changes at the
 * same time.
 */
void ext_p2p_read(u64 phys, void *to, unsigned long len)
{
	const void __iomem *at = io_at(phys), *end = at + len, *first = at + before_word(at, len);

	for (; at < first; at++)
		*(u8 *)to++ = __raw_readb(at);
	for (; end - at >= sizeof(u64); at += sizeof(u64), to += sizeof(u64))
		put_unaligned(__raw_readq(at), (u64 *)to);
	for (; at < end; at++)
		*(u8 *)to++ = __raw_readb(at);
}

void ext_p2p_write(u64 phys, const void *from, unsigned long len)
{
	void __iomem *at = io_at(phys), *end = at + len, *first = at + before_word(at, len);

	for (; at < first; at++)
		__raw_writeb(*(const u8 *)from++, at);
	for (; end - at >= sizeof(u64); at += sizeof(u64), from += sizeof(u64))
		__raw_writeq(get_unaligned((const u64 *)from), at);
	for (; at < end; at++)
		__raw_writeb(*(const u8 *)from++, at);
}

/* Sets [*start, *end) to the addresses of the page map that has the page at @phys. */
void ext_p2p_map_range(u64 phys, u64 *start, u64 *end)
{
	struct dev_pagemap *pgmap = page_pgmap(page_at(phys, 0));

	*start = pgmap->range.start;
	*end = pgmap->range.end + 1;
}

/* References on the page map of the page at @phys. */
void ext_p2p_map_get(u64 phys)
{
	percpu_ref_get(map_of(phys));
}

void ext_p2p_map_put(u64 phys, unsigned long n)
{
	percpu_ref_put_many(map_of(phys), n);
}

bool ext_is_pci_p2pdma_page(struct page *page)
{
	return is_pci_p2pdma_page(page);
}
