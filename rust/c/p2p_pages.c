// SPDX-License-Identifier: GPL-2.0
/* Pages of PCI peer-to-peer memory. */
#include <linux/bitmap.h>
#include <linux/genalloc.h>
#include <linux/io.h>
#include <linux/limits.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/rculist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "logic.h"

static struct page *page_at(u64 phys, unsigned long i)
{
	return pfn_to_page(PHYS_PFN(phys) + i);
}

static struct percpu_ref *map_of(u64 phys)
{
	return &page_pgmap(page_at(phys, 0))->ref;
}

/*
 * pci_alloc_p2pmem() takes one reference on the page map for a whole block and leaves the page
 * counts at 0. p2pdma_folio_free(), for the last reference of a page, gives the page back to the
 * pool and puts one reference on the page map. So this function takes one reference on the page map
 * for each page.
 */
void ext_p2p_pages_init(u64 phys, unsigned long n)
{
	unsigned long i;

	percpu_ref_get_many(map_of(phys), n);
	for (i = 0; i < n; i++) {
		struct page *page = page_at(phys, i);

		VM_WARN_ON_ONCE_PAGE(page_ref_count(page), page);
		set_page_count(page, 1);
	}
}

/*
 * Reverts ext_p2p_pages_init() up to the first page that has another reference. Returns the number
 * of reverted pages.
 */
unsigned long ext_p2p_pages_take(u64 phys, unsigned long n)
{
	struct percpu_ref *ref = map_of(phys);
	unsigned long i;

	for (i = 0; i < n; i++)
		if (!page_ref_freeze(page_at(phys, i), 1))
			break;
	if (i)
		percpu_ref_put_many(ref, i);
	return i;
}

/* The page returns to the kernel's pool with its last reference. */
void ext_p2p_page_put(u64 phys)
{
	put_page(page_at(phys, 0));
}

/* Returns whether a page has a reference besides the owner's. */
bool ext_p2p_pages_in_use(u64 phys, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		if (page_ref_count(page_at(phys, i)) != 1)
			return true;
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
 * Writes zeros to pages, by the widest stores of the CPU. If @combine, the stores go through a
 * write-combining mapping, unless there is no memory for the mapping. On return the pages are zero
 * for every device. If @killable, the function ends with -EINTR when the process is being killed.
 */
int ext_p2p_clear(u64 phys, unsigned long n, bool combine, bool killable)
{
	struct page **pages = NULL;
	unsigned long i, k, j;
	int ret = 0;

	if (combine)
		pages = kmalloc_array(PAGES_PER_CLEAR, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	for (i = 0; i < n; i += k) {
		void *at = NULL;

		if (killable && fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		k = min(n - i, (unsigned long)PAGES_PER_CLEAR);
		for (j = 0; pages && j < k; j++)
			pages[j] = page_at(phys, i + j);
		if (pages)
			at = vmap(pages, k, VM_MAP, pgprot_writecombine(PAGE_KERNEL));
		clear_words(at ? (void __iomem *)at : io_at(phys + i * PAGE_SIZE), k * PAGE_SIZE);
		/* Orders the stores before the read below, and before the end of the mapping. */
		wmb();
		if (at)
			vunmap(at);
	}
	kfree(pages);
	/* Writes on the bus are posted: a read waits for them. */
	readl(io_at(phys + n * PAGE_SIZE - sizeof(u32)));
	return ret;
}

/* The bytes at @at, @len at most, before the first aligned word. */
static unsigned long before_word(const void __iomem *at, unsigned long len)
{
	return min(len, -(unsigned long)at % sizeof(u64));
}

/*
 * Copies by the CPU. The range must not cross a page boundary. Each byte is accessed once, in
 * aligned words of 8 bytes where possible: memcpy_fromio() would split a value that a device
 * changes at the same time.
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

/*
 * Returns the kernel's pool of the peer-to-peer memory of a function. struct pci_p2pdma is private
 * to drivers/pci/p2pdma.c; the first field is the pool. So the function checks that the object
 * looks like a pool made by the kernel, and otherwise returns NULL.
 */
static struct gen_pool *pool_of(struct pci_dev *pdev)
{
	void *p2pdma = rcu_dereference_raw(pdev->p2pdma);
	struct gen_pool *pool;
	genpool_algo_t algo;
	int order;

	if (!p2pdma || get_kernel_nofault(pool, (struct gen_pool **)p2pdma) || !pool ||
	    get_kernel_nofault(algo, &pool->algo) || algo != gen_pool_first_fit ||
	    get_kernel_nofault(order, &pool->min_alloc_order) || order != PAGE_SHIFT)
		return NULL;
	return pool;
}

static unsigned long no_space(unsigned long *map, unsigned long size, unsigned long start,
			      unsigned int nr, void *data, struct gen_pool *pool,
			      unsigned long start_addr)
{
	return size;
}

/*
 * Lets every later allocation from the kernel's pool of a function fail, for the release of a driver.
 * pci_alloc_p2pmem() takes a reference on the page map that the pool names, and devres frees the page
 * map before pci_p2pdma_release() ends the use of the pool. On return no allocation is in progress.
 */
void ext_p2p_close_pool(struct pci_dev *pdev)
{
	struct gen_pool *pool = pool_of(pdev);

	if (!pool)
		return;
	gen_pool_set_algo(pool, no_space, NULL);
	synchronize_rcu();
}

/* Returns the chunk of the kernel's pool that begins at @start and has @n pages, or NULL. */
static struct gen_pool_chunk *chunk_of(struct pci_dev *pdev, void *start, unsigned long n)
{
	struct gen_pool *pool = pool_of(pdev);
	struct gen_pool_chunk *chunk;

	if (!pool)
		return NULL;
	list_for_each_entry_rcu(chunk, &pool->chunks, next_chunk)
		if (chunk->start_addr == (unsigned long)start &&
		    chunk->end_addr - chunk->start_addr + 1 == n << PAGE_SHIFT)
			return chunk;
	return NULL;
}

#define PAGES_PER_SCAN 2048

/*
 * Counts the pages of @map, a pool of page frame numbers of the function, that are free in @map or
 * in the kernel's pool, and finds the longest run of free pages that begins at a multiple of
 * @align, a power of two. Allocates nothing: other tasks may allocate and free meanwhile. Returns
 * false if the kernel's pool is not found; then only pages free in @map count.
 */
bool ext_p2p_free_space(struct pci_dev *pdev, struct gen_pool *map, unsigned long align,
			struct ext_p2p_space *space)
{
	struct gen_pool_chunk *own = list_first_entry(&map->chunks, struct gen_pool_chunk, next_chunk);
	unsigned long base = own->start_addr, n = own->end_addr - base + 1, at, len;
	void *start = page_to_virt(pfn_to_page(base));
	unsigned long begin = 0, end = ULONG_MAX;
	bool known = true;

	*space = (struct ext_p2p_space){ 0 };
	for (at = 0; at < n; at += len) {
		DECLARE_BITMAP(used, PAGES_PER_SCAN);
		struct gen_pool_chunk *other;
		unsigned int from, to;

		len = min(n - at, (unsigned long)PAGES_PER_SCAN);
		bitmap_copy(used, own->bits + BIT_WORD(at), len);
		rcu_read_lock();
		other = chunk_of(pdev, start, n);
		if (other)
			bitmap_and(used, used, other->bits + BIT_WORD(at), len);
		else
			known = false;
		rcu_read_unlock();
		for_each_clear_bitrange(from, to, used, len) {
			unsigned long first;

			space->free += to - from;
			/* The run may begin before this part. */
			if (at + from != end)
				begin = at + from;
			end = at + to;
			first = round_up(base + begin, align) - base;
			if (first < end)
				space->longest = max(space->longest, end - first);
		}
	}
	return known;
}
