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

struct search {
	unsigned long from, to;
	bool is_free;
};

static void find_next(struct gen_pool *pool, struct gen_pool_chunk *chunk, void *data)
{
	struct search *search = data;
	unsigned long from = search->from - chunk->start_addr, to = search->to - chunk->start_addr;

	from = search->is_free ? find_next_zero_bit(chunk->bits, to, from) :
				 find_next_bit(chunk->bits, to, from);
	search->from = chunk->start_addr + from;
}

/*
 * Returns the first number from @from on that is free, or if !@is_free allocated. Returns @to if
 * there is no such number before @to, which must be in the pool or the end of the pool.
 */
unsigned long ext_gen_pool_next(struct gen_pool *pool, unsigned long from, unsigned long to,
				bool is_free)
{
	struct search search = { .from = from, .to = to, .is_free = is_free };

	gen_pool_for_each_chunk(pool, find_next, &search);
	return search.from;
}

static void clear(struct gen_pool *pool, struct gen_pool_chunk *chunk, void *data)
{
	bitmap_zero(chunk->bits, chunk->end_addr - chunk->start_addr + 1);
}

/* Destroys a pool. Numbers may still be allocated. */
void ext_gen_pool_destroy(struct gen_pool *pool)
{
	gen_pool_for_each_chunk(pool, clear, NULL);
	gen_pool_destroy(pool);
}
