// SPDX-License-Identifier: GPL-2.0
/* Pools of numbers. */
#include <linux/bitmap.h>
#include <linux/genalloc.h>
#include <linux/numa.h>

#include "logic.h"

/* Creates a pool of the @n numbers from @start on. @start must not be 0. */
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

/* A pool of ext_gen_pool_new() has one chunk. */
static struct gen_pool_chunk *chunk_of(struct gen_pool *pool)
{
	return list_first_entry(&pool->chunks, struct gen_pool_chunk, next_chunk);
}

/*
 * Returns the first number from @from on that is free, or if !@is_free allocated. Returns @to if
 * there is no such number before @to, which must be in the pool or the end of the pool.
 */
unsigned long ext_gen_pool_next(struct gen_pool *pool, unsigned long from, unsigned long to,
				bool is_free)
{
	struct gen_pool_chunk *chunk = chunk_of(pool);
	unsigned long start = chunk->start_addr;

	from -= start;
	to -= start;
	return start + (is_free ? find_next_zero_bit(chunk->bits, to, from) :
				  find_next_bit(chunk->bits, to, from));
}

/* Destroys a pool. Numbers may still be allocated. */
void ext_gen_pool_destroy(struct gen_pool *pool)
{
	struct gen_pool_chunk *chunk = chunk_of(pool);

	bitmap_zero(chunk->bits, chunk->end_addr - chunk->start_addr + 1);
	gen_pool_destroy(pool);
}
