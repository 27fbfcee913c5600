/* SPDX-License-Identifier: GPL-2.0 */
/* How much memory the kernel uses. */
#ifndef BENCH_KMEM_H
#define BENCH_KMEM_H

#include <stdint.h>

enum bench_kmem_kind {
	BENCH_KMEM_ALL,		/* that is not free, without that of processes and files */
	BENCH_KMEM_SLAB,	/* objects of the slab allocator */
	BENCH_KMEM_VMALLOC,
	BENCH_KMEM_CHARGED,	/* kernel memory of the memory cgroup */
	BENCH_KMEM_KINDS,
};

struct bench_kmem {
	uint64_t bytes[BENCH_KMEM_KINDS];
};

/* The operations of the rows. */
extern const char *const bench_kmem_name[BENCH_KMEM_KINDS];

/* @cgroup: the directory of a memory cgroup. */
struct bench_kmem bench_kmem_read(const char *cgroup);

#endif
