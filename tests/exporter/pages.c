// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of the memory, and those that it was moved from.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "buffer.h"

#define POISON 0xdb
/* As many moves later a page is free. */
#define MAX_LEFT 16

struct left {
	struct list_head entry;
	struct page **pages;
};

void pages_free(struct page **pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; pages && i < n; i++)
		if (pages[i])
			__free_page(pages[i]);
	kvfree(pages);
}

struct page **pages_alloc(unsigned int n)
{
	struct page **pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL);
	unsigned int i;

	for (i = 0; pages && i < n; i++) {
		pages[i] = alloc_page(GFP_HIGHUSER | __GFP_ZERO);
		if (!pages[i]) {
			pages_free(pages, n);
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
	pages_free(left->pages, b->n_pages);
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
	pages_free(b->pages, b->n_pages);
	mutex_destroy(&b->lock);
	kfree(b);
}

void buffer_put(struct buffer *b)
{
	kref_put(&b->ref, buffer_free);
}
