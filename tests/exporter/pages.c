// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of the memory, and those that it was moved from.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "buffer.h"

#define POISON 0xdb
/* As many moves later a page is free. */
#define MAX_LEFT 16

struct left {
	struct list_head entry;
	struct page **pages;
};

int buffer_take_function(struct buffer *b)
{
	u32 address = READ_ONCE(b->options[PEER_TEST_EXPORTER_FUNCTION]);

	lockdep_assert_held(&b->lock);
	if (!address || b->function)
		return 0;
	b->function = pci_get_domain_bus_and_slot(0, address >> 8, address & 0xff);
	return b->function ? 0 : -ENODEV;
}

static struct page *one_alloc(struct buffer *b)
{
	void *at;

	if (!b->function)
		return alloc_page(GFP_HIGHUSER | __GFP_ZERO);
	at = pci_alloc_p2pmem(b->function, PAGE_SIZE);
	if (!at)
		return NULL;
	/* On other architectures than x86 memset() may use instructions for ordinary memory alone. */
	memset_io((void __iomem *)at, 0, PAGE_SIZE);
	return virt_to_page(at);
}

static void one_free(struct buffer *b, struct page *page)
{
	if (b->function)
		pci_free_p2pmem(b->function, page_address(page), PAGE_SIZE);
	else
		__free_page(page);
}

void pages_free(struct buffer *b, struct page **pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; pages && i < n; i++)
		if (pages[i])
			one_free(b, pages[i]);
	kvfree(pages);
}

struct page **pages_alloc(struct buffer *b, unsigned int n)
{
	struct page **pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL);
	unsigned int i;

	for (i = 0; pages && i < n; i++) {
		pages[i] = one_alloc(b);
		if (!pages[i]) {
			pages_free(b, pages, n);
			return NULL;
		}
	}
	return pages;
}

static void count_late(struct buffer *b, struct page *page)
{
	u8 *at = kmap_local_page(page);
	unsigned int i;

	for (i = 0; i < PAGE_SIZE; i++) {
		/* Counted once. */
		if (READ_ONCE(at[i]) != POISON) {
			b->late++;
			WRITE_ONCE(at[i], POISON);
		}
	}
	kunmap_local(at);
}

static void count_late_of(struct buffer *b, struct left *left)
{
	unsigned int i;

	for (i = 0; i < b->n_pages; i++)
		count_late(b, left->pages[i]);
}

void buffer_count_late(struct buffer *b)
{
	struct left *left;

	lockdep_assert_held(&b->lock);
	list_for_each_entry(left, &b->left, entry)
		count_late_of(b, left);
}

static void free_oldest(struct buffer *b)
{
	struct left *left = list_first_entry(&b->left, struct left, entry);

	count_late_of(b, left);
	list_del(&left->entry);
	pages_free(b, left->pages, b->n_pages);
	kfree(left);
	b->n_left--;
}

int buffer_leave(struct buffer *b, struct page **pages)
{
	struct left *left = kzalloc(sizeof(*left), GFP_KERNEL);
	unsigned int i;

	lockdep_assert_held(&b->lock);
	if (!left)
		return -ENOMEM;
	for (i = 0; i < b->n_pages; i++)
		memset_page(pages[i], 0, POISON, PAGE_SIZE);
	left->pages = pages;
	list_add_tail(&left->entry, &b->left);
	if (++b->n_left > MAX_LEFT)
		free_oldest(b);
	return 0;
}

void buffer_get(struct buffer *b)
{
	kref_get(&b->ref);
}

static void buffer_free(struct kref *ref)
{
	struct buffer *b = container_of(ref, struct buffer, ref);

	while (!list_empty(&b->left))
		free_oldest(b);
	pages_free(b, b->pages, b->n_pages);
	pci_dev_put(b->function);
	mutex_destroy(&b->lock);
	kfree(b);
}

void buffer_put(struct buffer *b)
{
	kref_put(&b->ref, buffer_free);
}
