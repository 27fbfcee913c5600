// SPDX-License-Identifier: GPL-2.0
/*
 * dm_mr TEST BAR RDMA-DEVICE GID-INDEX: one test of device memory, those of memory regions, of the removal
 * of the device, and of words that change; the others are in tests/guest/dm.py. BAR has 64 MiB and no other
 * user.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iopm.h>

#include "verbs.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
/* Two pages and a part of a third one. */
#define LENGTH (2 * PAGE + 1808)
#define ACCESS_DM (ACCESS_ALL | IBV_ACCESS_ZERO_BASED)

static const char *device;
static int gid_index;

static struct rdma dm_rdma(void)
{
	struct rdma r = rdma_open(device);

	r.gid_index = gid_index;
	return r;
}

static void expect_errno(const char *what, int got, int want)
{
	printf("%s: %s\n", what, got ? strerrorname_np(got) : "ok");
	if (got != want)
		errx(1, "%s: %s was expected", what, want ? strerrorname_np(want) : "ok");
}

static void expect_u64(const char *what, uint64_t got, uint64_t want)
{
	printf("%s: %#llx\n", what, (unsigned long long)got);
	if (got != want)
		errx(1, "%s: %#llx was expected", what, (unsigned long long)want);
}

static void expect_true(const char *what, bool ok)
{
	if (!ok)
		errx(1, "false: %s", what);
}

static struct iopm_dm *dm_alloc(struct iopm_context *bar, size_t length)
{
	struct iopm_alloc_dm_attr attr = { .length = length };
	struct iopm_dm *dm = iopm_alloc_dm(bar, &attr);

	if (!dm)
		err(1, "iopm_alloc_dm of %zu bytes", length);
	return dm;
}

static void dm_free(struct iopm_dm *dm)
{
	if ((errno = iopm_free_dm(dm)))
		err(1, "iopm_free_dm");
}

static uint64_t dm_room(struct iopm_context *bar)
{
	struct iopm_device_attr_ex attr;

	if ((errno = iopm_query_device_ex(bar, NULL, &attr)))
		err(1, "iopm_query_device_ex");
	expect_true("largest <= free <= max", attr.largest_dm_size <= attr.free_dm_size &&
		    attr.free_dm_size <= attr.max_dm_size);
	return attr.free_dm_size;
}

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

static void test_reg(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, LENGTH);
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

static void test_rdma(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, LENGTH);
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
static void test_mr_keeps(struct iopm_context *bar)
{
	uint64_t room = dm_room(bar);
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, 8 * PAGE);
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
static void test_gone(struct iopm_context *bar)
{
	struct rdma r = dm_rdma();
	struct iopm_dm *dm = dm_alloc(bar, 1 << 20), *idle = dm_alloc(bar, PAGE);
	struct iopm_dm *below = dm_alloc(bar, LENGTH);
	struct ibv_mr *mr = must_reg(&r, below, 0, LENGTH);
	struct ibv_mr *host = rdma_register(&r, host_page(), 2 * PAGE);
	struct pair p = pair_make(&r);
	struct iopm_alloc_dm_attr one = { .length = 1 };
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
	while (iopm_alloc_dm(bar, &one))
		usleep(10000);
	expect_errno("allocate", errno, ENODEV);
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

/* Alternates between two values that differ in every byte, until end is set. */
struct writer {
	volatile uint64_t *word;
	volatile bool end;
};

static void *alternate(void *data)
{
	struct writer *w = data;

	/* One store in each turn: QEMU interrupts a CPU between turns, so with both it always had the same. */
	for (uint64_t value = 0; !w->end; value = ~value)
		*w->word = value;
	return NULL;
}

/* A copy by the kernel does not split an aligned word, which may be a counter that changes. */
static void test_words(struct iopm_context *bar)
{
	struct iopm_dm *dm = dm_alloc(bar, PAGE);
	int fd = (int)dm->handle, seen[2] = { 0 };
	uint64_t *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct writer w = { .word = at + 1 };
	uint64_t words[3];
	pthread_t thread;

	if (at == MAP_FAILED || pthread_create(&thread, NULL, alternate, &w))
		errx(1, "no writer");
	/* On a busy machine the writer may not run during the first reads. */
	for (int i = 0; i < 30000 || (i < 1000000 && !(seen[0] && seen[1])); i++) {
		if (i >= 30000)
			sched_yield();
		/* From inside of a word to inside of a word. */
		expect_true("read", pread(fd, (char *)words + 5, 16, 5) == 16);
		if (words[1] + 1 > 1)
			errx(1, "read %#llx, half of each value", (unsigned long long)words[1]);
		seen[words[1] & 1]++;
	}
	w.end = true;
	pthread_join(thread, NULL);
	printf("values seen: %d and %d times\n", seen[0], seen[1]);
	expect_true("both values were seen", seen[0] && seen[1]);
	munmap(at, PAGE);
	dm_free(dm);
}

static const struct {
	const char *name;
	void (*run)(struct iopm_context *bar);
} tests[] = {
	{ "reg", test_reg }, { "rdma", test_rdma }, { "mr_keeps", test_mr_keeps }, { "gone", test_gone },
	{ "words", test_words },
};

int main(int argc, char **argv)
{
	struct iopm_context *bar;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5)
		errx(2, "usage: dm_mr TEST BAR RDMA-DEVICE GID-INDEX");
	device = argv[3];
	gid_index = atoi(argv[4]);
	bar = iopm_open_path(argv[2]);
	if (!bar)
		err(1, "%s", argv[2]);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(tests[i].name, argv[1]))
			continue;
		tests[i].run(bar);
		iopm_close_device(bar);
		printf("%s: done\n", argv[1]);
		return 0;
	}
	errx(2, "no such test: %s", argv[1]);
}
