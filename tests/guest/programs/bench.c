// SPDX-License-Identifier: GPL-2.0

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
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

#define WORKERS 256

static enum bench_clock clock_used;
static struct {
	int pid, schedstat;
} worker[WORKERS];
static int workers;
static uint64_t before, workers_before, overhead;

static uint64_t time_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t tsc(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return time_of(CLOCK_MONOTONIC_RAW);
#endif
}

/* Opens the accounting of the kernel's workers, of its softirqs and of Tasks RCU. */
static void find_workers(void)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	if (!proc)
		err(1, "/proc");
	while ((entry = readdir(proc)) && workers < WORKERS) {
		char path[300], name[32] = "";
		int fd, i, pid = atoi(entry->d_name);

		for (i = 0; i < workers && worker[i].pid != pid; i++)
			;
		if (!pid || i < workers)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		if (read(fd, name, sizeof(name) - 1) < 0)
			name[0] = 0;
		close(fd);
		if (strncmp(name, "kworker/", 8) && strncmp(name, "ksoftirqd/", 10) &&
		    strncmp(name, "rcu_tasks", 9))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		worker[workers].pid = pid;
		worker[workers++].schedstat = fd;
	}
	closedir(proc);
}

static uint64_t workers_time(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < workers; i++) {
		char text[80] = "";

		if (pread(worker[i].schedstat, text, sizeof(text) - 1, 0) > 0)
			sum += strtoull(text, NULL, 10);
	}
	return sum;
}

static uint64_t tasks_time(void)
{
	static int schedstat = -1;
	static char text[16384];
	uint64_t sum = 0, time;
	ssize_t n;

	if (schedstat < 0)
		schedstat = open("/proc/schedstat", O_RDONLY | O_CLOEXEC);
	/* It has the time that a task had until it left its CPU. */
	usleep(1);
	n = pread(schedstat, text, sizeof(text) - 1, 0);
	if (n < 0)
		err(1, "/proc/schedstat");
	text[n] = 0;
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "cpu%*u %*u %*u %*u %*u %*u %*u %ju", &time) == 1)
			sum += time;
	}
	return sum;
}

void bench_begin(void)
{
	switch (clock_used) {
	case BENCH_TSC:
		before = tsc();
		break;
	case BENCH_CPU:
		workers_before = workers_time();
		before = time_of(CLOCK_THREAD_CPUTIME_ID);
		break;
	case BENCH_TASKS:
		before = tasks_time();
		break;
	}
}

uint64_t bench_end(void)
{
	uint64_t cost = 0;

	switch (clock_used) {
	case BENCH_TSC:
		cost = tsc() - before;
		break;
	case BENCH_CPU:
		cost = time_of(CLOCK_THREAD_CPUTIME_ID) - before;
		cost += workers_time() - workers_before;
		break;
	case BENCH_TASKS:
		cost = tasks_time() - before;
		break;
	}
	/* A worker that has ended has taken its time with it. */
	return (int64_t)(cost - overhead) > 0 ? cost - overhead : 0;
}

void bench_clock_init(enum bench_clock clock)
{
	uint64_t least = UINT64_MAX;

	clock_used = clock;
	if (clock == BENCH_CPU)
		find_workers();
	/* What an empty operation costs. */
	for (int i = 0; i < 16; i++) {
		uint64_t cost;

		bench_begin();
		cost = bench_end();
		if (cost < least)
			least = cost;
	}
	overhead = least;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median of the half of the @n sorted figures that lie closest together. */
static uint64_t usual(const uint64_t *figure, int n)
{
	int half = n / 2 + 1, best = 0;

	for (int i = 1; i + half <= n; i++)
		if (figure[i + half - 1] - figure[i] < figure[best + half - 1] - figure[best])
			best = i;
	return figure[best + half / 2];
}

void bench_row(const char *label, const char *target, size_t size, const char *operation,
	       uint64_t *figure, int n)
{
	qsort(figure, n, sizeof(*figure), compare);
	printf("%s %s %zu %s %ju %ju %ju\n", label, target, size, operation,
	       (uintmax_t)usual(figure, n), (uintmax_t)figure[0], (uintmax_t)figure[n - 1]);
	fflush(stdout);
}
