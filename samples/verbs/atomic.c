// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RDMA atomics on device memory. */
#include <err.h>
#include <stdio.h>

#include "actions.h"
#include "pattern.h"

static void expect(const char *what, uint64_t got, uint64_t want)
{
	printf("%s: %#llx\n", what, (unsigned long long)got);
	if (got != want)
		errx(1, "%s: %#llx was expected", what, (unsigned long long)want);
}

/* Fetch-and-add and compare-and-swap, checked by the CPU and by RDMA READ. */
int do_atomic(struct options *o)
{
	struct buffer result = host_memory(4096), peer = map_zeroed(o->memory, o);
	struct ibv_mr *result_mr = rdma_register(&o->rdma, result.addr, 4096);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	/* Atomics need an aligned word of 8 bytes. */
	uint64_t at = ((uintptr_t)mr->addr + 7) & ~(uint64_t)7;
	volatile uint64_t *word = (void *)(uintptr_t)at;
	struct pair p = pair_make(&o->rdma);
	uint64_t seed = o->seed, start = splitmix64(&seed), add = splitmix64(&seed), v;

	*word = start;
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, result_mr, mr, at, add, 0);
	expect("fetch-and-add fetches", v, start);
	expect("fetch-and-add leaves", *word, start + add);
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, result_mr, mr, at, start, 1);
	expect("compare-and-swap of another value fetches", v, start + add);
	expect("compare-and-swap of another value leaves", *word, start + add);
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, result_mr, mr, at, start + add, seed);
	expect("compare-and-swap fetches", v, start + add);
	expect("compare-and-swap leaves", *word, seed);
	pair_must_rw(&p, IBV_WR_RDMA_READ, result_mr, result.addr, mr, (void *)word, 8);
	expect("RDMA READ gets", *(volatile uint64_t *)result.addr, seed);

	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(result_mr);
	buffer_unmap(&peer);
	return 0;
}
