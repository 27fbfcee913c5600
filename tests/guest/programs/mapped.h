/* SPDX-License-Identifier: GPL-2.0 */
/* Mappings of dma-bufs, of the shapes that a process can make. */
#ifndef MAPPED_H
#define MAPPED_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter.h"

struct mapped {
	struct exported exported;
	char *addr;
	size_t length;
	size_t start;		/* of the mapping in the dma-buf */
};

/*
 * Makes a dma-buf, see exporter_make(), and maps @length bytes, whole pages. @shape:
 *   whole	the dma-buf has as many bytes, and one VMA
 *   part	the dma-buf has 3 pages before it and 2 after it
 *   split	every other page is a VMA of its own, by mprotect(2)
 *   pieces	each page is mapped by its own mmap(2)
 *   read-only, private
 *   none	not mapped; the addresses are taken
 *   reserved	the same, by anonymous memory that was never accessed
 * and those that are not one part of one dma-buf:
 *   swapped	the second half before the first
 *   two	the second half is that of another dma-buf
 *   hole	a page in the middle is not mapped
 *   tail, head	the last or first page is anonymous memory
 *   guarded	the last page may not be accessed
 *   read-tail	the last page may not be written
 * Returns 0, or -1 with errno set.
 */
int mapped_make(struct mapped *m, const char *what, size_t length, const char *shape);

#endif /* MAPPED_H */
