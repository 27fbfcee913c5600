// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <ib_peer_mem.h>

#include "bench_buffer.h"
#include "bench_memory.h"

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

char *buffer_host(size_t size)
{
	size_t n = (size + HUGE_PAGE - 1) / HUGE_PAGE;
	char *from = reserve(n * HUGE_PAGE, PROT_READ | PROT_WRITE);
	char *to = reserve(n * HUGE_PAGE, PROT_NONE);
	char *page[n];

	madvise(from, n * HUGE_PAGE, MADV_HUGEPAGE);
	memset(from, 1, n * HUGE_PAGE);
	for (size_t i = 0; i < n; i++)
		page[i] = from + i * HUGE_PAGE;
	pagemap = buffer_open("/proc/self/pagemap");
	qsort(page, n, sizeof(*page), compare_physical);
	close(pagemap);
	for (size_t i = 0; i < n; i++)
		if (mremap(page[i], HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   to + i * HUGE_PAGE) == MAP_FAILED)
			err(1, "mremap");
	return to;
}

int buffer_open(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file < 0)
		err(1, "%s", path);
	return file;
}

char *buffer_map(int file, size_t size)
{
	/* A table is of entries of 64 KiB. */
	size_t offset = size >= 1ul << 30 ? 0 : DEVICE_OFFSET;
	char *addr = reserve(size + offset, PROT_NONE) + offset;

	if (mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
		err(1, "mmap %zu bytes of the device", size);
	return addr;
}

int buffer_heap(int heap, size_t size)
{
	struct dma_heap_allocation_data data = { .len = size, .fd_flags = O_RDWR | O_CLOEXEC };

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		err(1, "DMA_HEAP_IOCTL_ALLOC of %zu bytes", size);
	return data.fd;
}

int buffer_export(int control, void *addr, size_t size)
{
	struct ib_peer_mem_export export = {
		.version = IB_PEER_MEM_EXPORT_VERSION,
		.addr = (uintptr_t)addr,
		.length = size,
	};

	if (ioctl(control, IB_PEER_MEM_IOC_EXPORT, &export))
		err(1, "IB_PEER_MEM_IOC_EXPORT of %zu bytes", size);
	return export.fd;
}

int buffer_table(int memory, size_t size)
{
	int fd = ioctl(memory, BENCH_MEMORY_EXPORT, size >> 16);

	if (fd < 0)
		err(1, "BENCH_MEMORY_EXPORT of %zu bytes", size);
	return fd;
}
