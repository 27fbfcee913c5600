// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "bench_memory.h"
#include "exporter.h"

#define HUGE_PAGE (2ul << 20)
/*
 * Where the mapping of a device begins behind a multiple of HUGE_PAGE. The largest page that an MR
 * can have depends on this: without a fixed place the cost changes with the libraries of the process.
 */
#define DEVICE_OFFSET (16ul << 10)

static int pagemap;

/* The number of the physical page at @addr. */
static uint64_t physical(const char *addr)
{
	uint64_t entry = 0;

	if (pread(pagemap, &entry, sizeof(entry), (uintptr_t)addr / (uintptr_t)sysconf(_SC_PAGESIZE) * 8) != sizeof(entry))
		err(1, "/proc/self/pagemap");
	return entry & ((1ull << 55) - 1);
}

/* Huge pages in descending order of their physical addresses. */
static int compare_physical(const void *a, const void *b)
{
	uint64_t x = physical(*(char *const *)a), y = physical(*(char *const *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static char *reserve(size_t size, int prot)
{
	char *addr = mmap(NULL, size + HUGE_PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		err(1, "mmap %zu bytes", size);
	return addr + -(uintptr_t)addr % HUGE_PAGE;
}

char *bench_host(size_t size)
{
	size_t n = (size + HUGE_PAGE - 1) / HUGE_PAGE;
	char *from = reserve(n * HUGE_PAGE, PROT_READ | PROT_WRITE);
	char *to = reserve(n * HUGE_PAGE, PROT_NONE);
	char *page[n];

	madvise(from, n * HUGE_PAGE, MADV_HUGEPAGE);
	memset(from, 1, n * HUGE_PAGE);
	for (size_t i = 0; i < n; i++)
		page[i] = from + i * HUGE_PAGE;
	pagemap = bench_open("/proc/self/pagemap");
	qsort(page, n, sizeof(*page), compare_physical);
	close(pagemap);
	for (size_t i = 0; i < n; i++)
		if (mremap(page[i], HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   to + i * HUGE_PAGE) == MAP_FAILED)
			err(1, "mremap");
	return to;
}

int bench_open(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file < 0)
		err(1, "%s", path);
	return file;
}

char *bench_map(int file, size_t size)
{
	/* A table is of entries of 64 KiB. */
	size_t offset = size >= 1ul << 30 ? 0 : DEVICE_OFFSET;
	char *addr = reserve(size + offset, PROT_NONE) + offset;

	if (mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
		err(1, "mmap %zu bytes of the device", size);
	return addr;
}

int bench_export(const char *target, int device, void *addr, size_t size)
{
	int fd;

	if (strcmp(target, "dmabuf") == 0)
		fd = export_range(device, addr, size);
	else if (strcmp(target, "table-dmabuf") == 0)
		fd = ioctl(device, BENCH_MEMORY_EXPORT, size >> 16);
	else
		return -1;
	if (fd < 0)
		err(1, "export of %zu bytes", size);
	return fd;
}

struct ibv_mr *bench_register(struct rdma *rdma, int dmabuf, void *addr, size_t size)
{
	struct ibv_mr *mr;

	if (dmabuf < 0)
		mr = ibv_reg_mr(rdma->pd, addr, size, ACCESS_ALL);
	else
		mr = ibv_reg_dmabuf_mr(rdma->pd, 0, size, (uintptr_t)addr, dmabuf, ACCESS_ALL);
	if (!mr)
		err(1, "%s of %zu bytes", dmabuf < 0 ? "ibv_reg_mr" : "ibv_reg_dmabuf_mr", size);
	return mr;
}
