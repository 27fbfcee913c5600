// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/genalloc.h, which the kernel's bindings leave out. */
#include <linux/bitmap.h>
#include <linux/genalloc.h>
#include <linux/numa.h>

#include "helpers.h"

/* Creates a pool of the numbers from @start, which is not 0, to @start + @n. */
struct gen_pool *ext_gen_pool_new(unsigned long start, unsigned long n)
{
	struct gen_pool *pool = gen_pool_create(0, NUMA_NO_NODE);

	if (pool && gen_pool_add(pool, start, n, NUMA_NO_NODE)) {
		gen_pool_destroy(pool);
		return NULL;
	}
	return pool;
}

/* Returns the first of @n numbers, a multiple of @align, or 0. */
unsigned long ext_gen_pool_alloc(struct gen_pool *pool, unsigned long n, int align)
{
	struct genpool_data_align data = { .align = align };

	return gen_pool_alloc_algo(pool, n, gen_pool_first_fit_align, &data);
}

void ext_gen_pool_free(struct gen_pool *pool, unsigned long start, unsigned long n)
{
	gen_pool_free(pool, start, n);
}

unsigned long ext_gen_pool_avail(struct gen_pool *pool)
{
	return gen_pool_avail(pool);
}

static unsigned long chunk_bits(struct gen_pool_chunk *chunk)
{
	return chunk->end_addr - chunk->start_addr + 1;
}

static void find_largest(struct gen_pool *pool, struct gen_pool_chunk *chunk, void *data)
{
	unsigned long start, end, *largest = data;

	for_each_clear_bitrange(start, end, chunk->bits, chunk_bits(chunk))
		*largest = max(*largest, end - start);
}

/* Returns the length of the longest run of free numbers. */
unsigned long ext_gen_pool_largest(struct gen_pool *pool)
{
	unsigned long largest = 0;

	gen_pool_for_each_chunk(pool, find_largest, &largest);
	return largest;
}

static void clear(struct gen_pool *pool, struct gen_pool_chunk *chunk, void *data)
{
	bitmap_zero(chunk->bits, chunk_bits(chunk));
}

/* Destroys a pool, of which numbers may still be allocated. */
void ext_gen_pool_destroy(struct gen_pool *pool)
{
	gen_pool_for_each_chunk(pool, clear, NULL);
	gen_pool_destroy(pool);
}
