// SPDX-License-Identifier: GPL-2.0
/* Memory regions on device memory, and the removal of the device. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dm.h"

static int reg_errno(struct rdma *r, struct iopm_dm *dm, uint64_t offset, size_t length,
		     unsigned int access)
{
	struct ibv_mr *mr = iopm_reg_dm_mr(r->pd, dm, offset, length, access);

	if (!mr)
		return errno;
	rdma_deregister(mr);
	return 0;
}

static struct ibv_mr *must_reg(struct rdma *r, struct iopm_dm *dm, uint64_t offset,
			       size_t length)
{
	struct ibv_mr *mr = iopm_reg_dm_mr(r->pd, dm, offset, length, ACCESS_DM);

	if (!mr)
		err(1, "iopm_reg_dm_mr");
	return mr;
}

void test_reg(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, LENGTH, 0);
	const struct {
		size_t offset, length;
		unsigned int access;
		int error;
	} ranges[] = {
		{ 0, LENGTH, ACCESS_DM, 0 }, { 0, 1, ACCESS_DM, 0 }, { PAGE, LENGTH - PAGE, ACCESS_DM, 0 },
		{ 0, 100, IBV_ACCESS_ZERO_BASED, 0 }, { 0, 100, ACCESS_ALL, EINVAL },
		{ 0, 0, ACCESS_DM, EINVAL }, { 8, 100, ACCESS_DM, EINVAL },
		{ 0, LENGTH + 1, ACCESS_DM, EINVAL }, { 3 * PAGE, 1, ACCESS_DM, EINVAL },
		{ PAGE, SIZE_MAX, ACCESS_DM, EINVAL }, { -PAGE, 2 * PAGE, ACCESS_DM, EINVAL },
	};
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		printf("%#zx bytes at %#zx, access %#x: ", ranges[i].length, ranges[i].offset, ranges[i].access);
		expect_errno("registration", reg_errno(&r, dm, ranges[i].offset, ranges[i].length,
						       ranges[i].access), ranges[i].error);
	}

	mr = must_reg(&r, dm, 0, LENGTH);
	expect_true("addresses are offsets", !mr->addr && mr->length == LENGTH);
	expect_errno("free under a region", iopm_free_dm(dm), EBUSY);
	rdma_deregister(mr);
	expect_errno("free", iopm_free_dm(dm), 0);
	rdma_close(&r);
}

static uint64_t word(struct iopm_dm *dm, uint64_t at)
{
	uint64_t v = 0;

	expect_true("read", !iopm_memcpy_from_dm(&v, dm, at, 8));
	return v;
}

static void *host_page(void)
{
	void *page = aligned_alloc(PAGE, 2 * PAGE);

	if (!page)
		err(1, "aligned_alloc");
	return memset(page, 0x5a, 2 * PAGE);
}

void test_rdma(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, LENGTH, 3);
	struct ibv_mr *mr = must_reg(&r, dm, 0, LENGTH), *late = must_reg(&r, dm, PAGE, 5000);
	struct ibv_mr *host = rdma_register(&r, host_page(), 2 * PAGE);
	unsigned char *bytes = host->addr, back[5000];
	struct pair p = pair_make(&r);
	uint64_t v = 1000;

	/* By rkey: the address is the offset, also across pages. */
	for (int i = 0; i < 5000; i++)
		bytes[i] = i * 7;
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, host, bytes, mr, (void *)(PAGE - 1095), 5000);
	expect_true("read", !iopm_memcpy_from_dm(back, dm, PAGE - 1095, 5000));
	expect_true("what was written", !memcmp(back, bytes, 5000));
	memset(bytes, 0, 5000);
	pair_must_rw(&p, IBV_WR_RDMA_READ, host, bytes, mr, (void *)(PAGE - 1095), 5000);
	expect_true("what was read", !memcmp(back, bytes, 5000));
	/* The second region is zero-based too. */
	pair_must_rw(&p, IBV_WR_RDMA_READ, host, bytes, late, (void *)5, 100);
	expect_true("read", !iopm_memcpy_from_dm(back, dm, PAGE + 5, 100));
	expect_true("what was read of the second", !memcmp(back, bytes, 100));
	/* By lkey: from one region to the other. */
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, late, (void *)8, mr, (void *)16, 64);
	expect_u64("from region to region", word(dm, 16), word(dm, PAGE + 8));

	expect_true("write", !iopm_memcpy_to_dm(dm, PAGE + 8, &v, 8));
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, host, mr, PAGE + 8, 5, 0);
	expect_u64("fetch-and-add fetches", v, 1000);
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, host, late, 8, 6, 0);
	expect_u64("fetch-and-add at the second region", v, 1005);
	expect_u64("both have added", word(dm, PAGE + 8), 1011);
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, host, late, 8, 1, 2);
	expect_u64("compare-and-swap of another value", v, 1011);
	expect_u64("leaves it", word(dm, PAGE + 8), 1011);
	v = pair_must_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, host, late, 8, 1011, 2);
	expect_u64("compare-and-swap", v, 1011);
	expect_u64("swaps it", word(dm, PAGE + 8), 2);

	/* The region ends inside its last page. */
	expect_true("past the end", pair_rw(&p, IBV_WR_RDMA_WRITE, host, bytes, mr,
					    (void *)(LENGTH - 10), 11) == IBV_WC_REM_ACCESS_ERR);
	pair_free(&p);
	rdma_deregister(host);
	rdma_deregister(late);
	rdma_deregister(mr);
	dm_free(dm);
	rdma_close(&r);
}

/* Unimported, not freed: only the pages of the region stay allocated. */
void test_mr_keeps(struct iopm_context *bar)
{
	uint64_t room = dm_room(bar);
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, 8 * PAGE, 0);
	struct ibv_mr *mr = must_reg(&r, dm, 0, 2 * PAGE);
	struct ibv_mr *host = rdma_register(&r, host_page(), 2 * PAGE);
	struct pair p = pair_make(&r);

	iopm_unimport_dm(dm);
	expect_u64("the region keeps the allocation", dm_room(bar), room - 8 * PAGE);
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, host, host->addr, mr, (void *)100, 5000);
	pair_free(&p);
	rdma_deregister(mr);
	expect_u64("and free", dm_room(bar), room);
	rdma_deregister(host);
	rdma_close(&r);
}

/* Removal of the device: one allocation in use, one idle, one under a region. */
void test_gone(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, 1 << 20, 0), *idle = dm_alloc(bar, PAGE, 0);
	struct iopm_dm *below = dm_alloc(bar, LENGTH, 0);
	struct ibv_mr *mr = must_reg(&r, below, 0, LENGTH);
	struct ibv_mr *host = rdma_register(&r, host_page(), 2 * PAGE);
	struct pair p = pair_make(&r);
	struct iopm_device_attr_ex attr;
	static char bytes[1 << 20];
	int error, copies = 0;

	pair_must_rw(&p, IBV_WR_RDMA_WRITE, host, host->addr, mr, NULL, 5000);
	printf("running\n");
	/* The device is removed during one of these copies. */
	do {
		error = iopm_memcpy_to_dm(dm, 0, bytes, sizeof(bytes));
		copies++;
	} while (!error);
	printf("%d copies\n", copies);
	expect_errno("copy to removed memory", error, ENODEV);
	expect_errno("again", iopm_memcpy_to_dm(dm, 5, bytes, 100), ENODEV);
	expect_errno("copy from removed memory", iopm_memcpy_from_dm(bytes, dm, 0, 8), ENODEV);
	/* The allocations are revoked one after the other. */
	while (!(error = iopm_memcpy_from_dm(bytes, idle, 0, 8)))
		usleep(10000);
	expect_errno("copy, first access", error, ENODEV);
	expect_errno("bounds", iopm_memcpy_from_dm(bytes, dm, 1 << 20, 8), EINVAL);
	expect_true("remote access error", pair_rw(&p, IBV_WR_RDMA_WRITE, host, host->addr, mr,
						   NULL, 5000) == IBV_WC_REM_ACCESS_ERR);
	/* The device node is removed first, the memory shortly after. */
	while (!(error = dm_alloc_errno(bar, 1, 0, 0)))
		usleep(10000);
	expect_errno("allocate", error, ENODEV);
	while (!(error = iopm_query_device_ex(bar, NULL, &attr)))
		usleep(10000);
	expect_errno("query", error, ENODEV);
	expect_true("import", !iopm_import_dm(bar, dm->handle) && errno == ENODEV);
	expect_true("map", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, (int)dm->handle, 0) ==
		    MAP_FAILED && errno == ENODEV);
	expect_true("register", reg_errno(&r, dm, 0, 100, ACCESS_DM));
	expect_errno("free", iopm_free_dm(dm), 0);
	expect_errno("free without an access before", iopm_free_dm(idle), 0);
	expect_errno("free under a revoked region", iopm_free_dm(below), 0);
	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(host);
	rdma_close(&r);
}
