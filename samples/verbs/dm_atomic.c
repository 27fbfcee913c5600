// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * dm_atomic BAR [RDMA-DEVICE [GID-INDEX]] - a counter in device memory
 *
 * Allocates device memory aligned for atomics, registers it as a zero-based memory
 * region, and counts in it with RDMA fetch-and-add. The calls are those of
 * ibv_alloc_dm(3) with iopm_ instead of ibv_; the memory is a BAR instead of the
 * adapter's own memory.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iopm.h>

#include "hint.h"
#include "verbs.h"

#define COUNTER 64	/* offset in the allocation, a multiple of 8 */

static void usage(FILE *to)
{
	fprintf(to, "usage: dm_atomic BAR [RDMA-DEVICE [GID-INDEX]]\n"
		"Counts with RDMA atomics in memory of the BAR, /dev/io_peer_mem/BDF/barN (\"iopm list\").\n"
		"RDMA-DEVICE is rxe0 if not given, GID-INDEX 0. RoCE v2 of other devices needs another GID.\n");
}

int main(int argc, char **argv)
{
	struct iopm_alloc_dm_attr attr = { .length = 4096, .log_align_req = 3 };
	struct iopm_context *bar;
	struct iopm_dm *dm;
	struct rdma rdma;
	struct ibv_mr *mr, *result;
	struct pair pair;
	uint64_t start = 1000, end;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		usage(stdout);
		return 0;
	}
	if (argc < 2 || argc > 4) {
		usage(stderr);
		return 2;
	}
	bar = iopm_open_path(argv[1]);
	if (!bar) {
		int error = errno;

		warn("%s", argv[1]);
		hint_open(error);
		return 1;
	}
	rdma = rdma_open(argc > 2 ? argv[2] : "rxe0");
	rdma.gid_index = argc > 3 ? atoi(argv[3]) : 0;

	dm = iopm_alloc_dm(bar, &attr);
	if (!dm)
		err(1, "iopm_alloc_dm");
	/* With zero=never the allocation has the contents of its last user. */
	if ((errno = iopm_memcpy_to_dm(dm, COUNTER, &start, sizeof(start))))
		err(1, "iopm_memcpy_to_dm");
	mr = iopm_reg_dm_mr(rdma.pd, dm, 0, attr.length, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	if (!mr)
		err(1, "iopm_reg_dm_mr");
	result = rdma_register(&rdma, aligned_alloc(4096, 4096), 4096);
	pair = pair_make(&rdma);

	for (uint64_t i = 0; i < 10; i++)
		/* The region is zero-based: the address is the offset. */
		if (pair_must_atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, result, mr, COUNTER, 7,
				     0) != start + 7 * i)
			errx(1, "fetch-and-add %llu fetched another value",
			     (unsigned long long)i);
	if ((errno = iopm_memcpy_from_dm(&end, dm, COUNTER, sizeof(end))))
		err(1, "iopm_memcpy_from_dm");
	printf("counter: %llu, after 10 times 7 from %llu on\n", (unsigned long long)end,
	       (unsigned long long)start);

	pair_free(&pair);
	rdma_deregister(result);
	/* The memory cannot be freed while the memory region exists. */
	if (iopm_free_dm(dm) != EBUSY)
		errx(1, "device memory was freed under a memory region");
	rdma_deregister(mr);
	if ((errno = iopm_free_dm(dm)))
		err(1, "iopm_free_dm");
	rdma_close(&rdma);
	iopm_close_device(bar);
	return end == start + 70 ? 0 : 1;
}
