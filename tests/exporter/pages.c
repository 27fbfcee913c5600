// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of the memory, and those that it was moved from.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "buffer.h"

#define POISON 0xdb
/* As many moves later a page is free. */
#define MAX_LEFT 16

/* Pages that follow each other, as segments of nv_dmabuf do. */
#define SEGMENT_ORDER (16 - PAGE_SHIFT)

static bool is_gpu(struct buffer *b)
{
	return b->options[PEER_TEST_EXPORTER_GPU];
}

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
	if (is_gpu(b))
		return -EINVAL;
	b->function = pci_get_domain_bus_and_slot(0, address >> 8, address & 0xff);
	return b->function ? 0 : -ENODEV;
}

/* Returns an errno, as the parts that were taken go with the buffer. */
static int take_part(struct buffer *b, const struct peer_test_exporter_part *part)
{
	struct buffer *from = buffer_of(part->control);
	unsigned int first = part->offset >> PAGE_SHIFT, n = part->size >> PAGE_SHIFT;
	int rc = -EINVAL;

	if (IS_ERR(from))
		return PTR_ERR(from);
	b->parts[b->n_parts++] = from;
	/* Not of itself, whose lock is held. */
	if (from == b)
		return -EINVAL;
	mutex_lock_nested(&from->lock, SINGLE_DEPTH_NESTING);
	if (!from->parts && part->offset < PEER_TEST_EXPORTER_MAX_SIZE && part->size <= PEER_TEST_EXPORTER_MAX_SIZE &&
	    first + n <= from->n_pages) {
		memcpy(b->pages + b->n_pages, from->pages + first, n * sizeof(*b->pages));
		b->n_pages += n;
		from->joined = true;
		rc = 0;
	}
	mutex_unlock(&from->lock);
	return rc;
}

int buffer_join(struct buffer *b, struct peer_test_exporter_join *arg)
{
	struct peer_test_exporter_part *parts;
	u64 size = 0;
	int rc = 0;
	u32 i;

	lockdep_assert_held(&b->lock);
	if (!arg->n || arg->n > PEER_TEST_EXPORTER_PARTS)
		return -EINVAL;
	parts = memdup_array_user(u64_to_user_ptr(arg->parts), arg->n, sizeof(*parts));
	if (IS_ERR(parts))
		return PTR_ERR(parts);
	for (i = 0; i < arg->n && !rc; i++) {
		if (!parts[i].size || !PAGE_ALIGNED(parts[i].size | parts[i].offset) || parts[i].reserved ||
		    parts[i].size > PEER_TEST_EXPORTER_MAX_SIZE)
			rc = -EINVAL;
		size += parts[i].size;
	}
	if (!rc) {
		b->parts = kcalloc(arg->n, sizeof(*b->parts), GFP_KERNEL);
		b->pages = kvcalloc(size >> PAGE_SHIFT, sizeof(*b->pages), GFP_KERNEL);
		rc = b->parts && b->pages ? 0 : -ENOMEM;
	}
	for (i = 0; i < arg->n && !rc; i++)
		rc = take_part(b, &parts[i]);
	kfree(parts);
	return rc;
}

/* A page, or as many as a segment has, to be freed one by one. */
static struct page *alloc_segment(struct buffer *b)
{
	unsigned int order = is_gpu(b) ? SEGMENT_ORDER : 0;
	struct page *page = alloc_pages(GFP_HIGHUSER | __GFP_ZERO, order);

	if (page)
		split_page(page, order);
	return page;
}

static struct page *one_alloc(struct buffer *b)
{
	void *at;

	if (!b->function)
		return alloc_segment(b);
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

	if (is_gpu(b) && n % (1 << SEGMENT_ORDER)) {
		kvfree(pages);
		return NULL;
	}
	for (i = 0; pages && i < n; i++) {
		if (is_gpu(b) && i % (1 << SEGMENT_ORDER)) {
			pages[i] = pages[i - 1] + 1;
			continue;
		}
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
	if (b->parts)
		kvfree(b->pages);
	else
		pages_free(b, b->pages, b->n_pages);
	while (b->n_parts)
		buffer_put(b->parts[--b->n_parts]);
	kfree(b->parts);
	pci_dev_put(b->function);
	mutex_destroy(&b->lock);
	kfree(b);
}

void buffer_put(struct buffer *b)
{
	kref_put(&b->ref, buffer_free);
}
