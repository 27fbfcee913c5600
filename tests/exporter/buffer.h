/* SPDX-License-Identifier: GPL-2.0 */
#ifndef BUFFER_H
#define BUFFER_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "peer_test_exporter.h"

struct dma_buf;
struct pci_dev;

/* Memory, and the dma-buf of it. */
struct buffer {
	struct kref ref;	/* of the file of the device, and of the dma-buf */
	u32 options[PEER_TEST_EXPORTER_OPTIONS];

	/* Held by a move, during which the dma-buf is not released. */
	struct mutex lock;
	struct dma_buf *dmabuf;	/* NULL: not created, or released */
	struct list_head left;	/* pages that the memory was moved from, all of them POISON */
	unsigned int n_left;
	u64 moves, late;
	struct pci_dev *function;	/* whose memory it is; NULL: host memory */
	struct buffer **parts;	/* whose pages these are; NULL: its own */
	unsigned int n_parts;
	bool joined;		/* its pages are those of another as well */

	/* Protected by the reservation lock of the dma-buf, as long as it exists. */
	unsigned int n_pages;	/* 0: the dma-buf is not created yet; does not change then */
	struct page **pages;
	unsigned int attached, mapped, pinned;
	bool revoked;
};

void buffer_get(struct buffer *b);
void buffer_put(struct buffer *b);

/* Takes over the pages of the parts. Called with the lock, before there are pages. */
int buffer_join(struct buffer *b, struct peer_test_exporter_join *arg);

/* Finds the PCI function of the option. Called with the lock, before there are pages. */
int buffer_take_function(struct buffer *b);

/* Pages, with zeros. Returns NULL if there is no memory. */
struct page **pages_alloc(struct buffer *b, unsigned int n);
void pages_free(struct buffer *b, struct page **pages, unsigned int n);

/*
 * Takes over pages that nothing may access any more, and fills them with POISON. Called with the lock.
 */
int buffer_leave(struct buffer *b, struct page **pages);
/* Looks for bytes that were written there. Called with the lock. */
void buffer_count_late(struct buffer *b);

/* The buffer of a file of the device, with a reference; or an errno. */
struct buffer *buffer_of(int fd);

/* Creates the dma-buf of the pages; returns its descriptor or an errno. Called with the lock. */
int buffer_export(struct buffer *b);
/* Both take the lock. */
int buffer_move(struct buffer *b);
int buffer_revoke(struct buffer *b);

#endif /* BUFFER_H */
