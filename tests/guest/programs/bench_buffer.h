/* SPDX-License-Identifier: GPL-2.0 */
/* The memory that measurements register. A failure ends the program. */
#ifndef BENCH_BUFFER_H
#define BENCH_BUFFER_H

#include <stddef.h>

/*
 * Host memory of which the physical layout is always the same: in huge pages, of which no two
 * are adjacent in ascending order, since the kernel joins these.
 */
char *buffer_host(size_t size);

/* Opens a device file; maps it. */
int buffer_open(const char *path);
char *buffer_map(int file, size_t size);

/* Allocates a dma-buf of @heap, which is a dma-heap; returns the descriptor. */
int buffer_heap(int heap, size_t size);

/* Has /dev/ib_peer_mem, which @control is, export memory as a dma-buf; returns the descriptor. */
int buffer_export(int control, void *addr, size_t size);

/* Has bench_memory.ko, which @memory is, export a table as a dma-buf; returns the descriptor. */
int buffer_table(int memory, size_t size);

#endif
