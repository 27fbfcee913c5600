/* SPDX-License-Identifier: GPL-2.0 */
/* Memory to register, and its contents. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	char *addr;
	size_t length;
	int fd;			/* the file that is mapped; -1: none */
	int dmabuf;		/* to register instead of the addresses; -1: the addresses */
	size_t start;		/* of the mapping in that dma-buf */
	int control;		/* of the test exporter; -1: another exporter */
	bool gpu;
	bool changed;		/* the process has unmapped or mapped something in it */
};

/*
 * @what: "host"; a file to map; "export:" and a file, a
 * dma-buf of the mapping made by /dev/ib_peer_mem; "gpu:WAY" (cuda.h), an allocation by the stand-in for CUDA's
 * driver (tests/gpu), or "gpu:WAY:MIB", mapped in chunks of so many MiB; "mapped:" and an exporter (exporter.h), a
 * mapping of a dma-buf; "named:" and an exporter, the same with the name of the dma-buf;
 * "dmabuf:" and an exporter, the dma-buf of such a mapping; "vfio:FUNCTION:BAR", a mapping of the BAR by
 * vfio-pci, at a multiple of 2 MiB; or "doorbell", the first page of an RDMA device that this process
 * has mapped for writing. @shape: of mappings of a dma-buf; NULL: whole.
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
int memory_map(struct memory *m, const char *what, const char *shape, size_t length);

/*
 * Maps other memory at the addresses: "host", "reserved" (the same, never accessed), "same" (the file
 * from its beginning), or a new dma-buf of this exporter. A name stays. Returns 0, or -1 with errno set.
 */
int memory_map_over(struct memory *m, const char *what);

/*
 * Changes the mapping of a part: "unmap", "protect" (only reads are permitted), or "remap" (to other
 * addresses). Returns 0, or -1 with errno set.
 */
int memory_change(struct memory *m, const char *how, size_t offset, size_t length);

/* Removes the name. Returns 0, or -1 with errno set. */
int memory_unname(const struct memory *m);

/* Unmaps the memory and closes its file. Returns 0, or -1 with errno set. */
int memory_unmap(struct memory *m);

/* Memory of a GPU: maps or unmaps chunk @i, which may be after the end; unmaps or frees all. */
int gpu_chunk(bool map, size_t i);
int gpu_free(void);
/* Copies what is in the memory. */
int gpu_read(void *to, const char *from, size_t length);

/*
 * Accesses by the CPU, volatile as device memory needs it. Return 0, or -1 if the
 * memory is removed (SIGBUS) or unmapped (SIGSEGV).
 */
int memory_fill(char *to, size_t length, uint64_t seed);
/* @wrong: the first byte that differs from the pattern; @length: all are equal. */
int memory_check(const char *from, size_t length, uint64_t seed, size_t *wrong);
int memory_read(char *to, const char *from, size_t length);

#endif /* MEMORY_H */
