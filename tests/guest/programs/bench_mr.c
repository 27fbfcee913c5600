// SPDX-License-Identifier: GPL-2.0
/*
 * bench_mr [-p] [-c] DEVICE LABEL TARGET SIZE...: what a registration costs, in instructions; see
 * bench_clock.h. TARGET: host, host memory; bar:PATH, a BAR, by ibv_reg_mr; first:PATH, the
 * same, as the only MR on a BAR in its PD; dmabuf:PATH, the same memory exported as a dma-buf, by ibv_reg_dmabuf_mr; map:PATH, mapping a BAR and touching
 * a byte. -c: by CPU time. -p: ftrace traces the last round. Prints a line for each operation: label, target, size, operation,
 * median, least, most.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "bench_clock.h"
#include "verbs.h"

#define HUGE_PAGE (2ul << 20)
#define ROUNDS 33
#define WARM_UP 3
#define OPERATIONS 4

/* What one round of a target costs. */
struct costs {
	const char *name[OPERATIONS];
	uint64_t cost[OPERATIONS][ROUNDS];
	int round;
};

static struct rdma rdma;
static int bar = -1;
static int profile;
/* tracing_on of ftrace in the last round, else -1. */
static int tracing = -1;

static void trace(const char *on)
{
	if (tracing >= 0 && write(tracing, on, 1) != 1)
		err(1, "tracing_on");
}

/* Has ftrace trace this process. */
static void trace_begin(void)
{
	FILE *pid = fopen("/sys/kernel/tracing/set_ftrace_pid", "w");

	if (!pid || fprintf(pid, "%d", getpid()) < 0 || fclose(pid))
		err(1, "set_ftrace_pid");
	tracing = open("/sys/kernel/tracing/tracing_on", O_WRONLY | O_CLOEXEC);
	trace("1");
}

/* Records the cost of operation @i of this round. */
static void record(struct costs *costs, int i, const char *name)
{
	costs->cost[i][costs->round] = bench_end();
	costs->name[i] = name;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void report(struct costs *costs, const char *label, const char *target, size_t size)
{
	for (int i = 0; i < OPERATIONS && costs->name[i]; i++) {
		uint64_t *cost = costs->cost[i];

		qsort(cost, costs->round, sizeof(*cost), compare);
		printf("%s %s %zu %s %ju %ju %ju\n", label, target, size, costs->name[i],
		       (uintmax_t)cost[costs->round / 2], (uintmax_t)cost[0],
		       (uintmax_t)cost[costs->round - 1]);
	}
	fflush(stdout);
}

/* The number of the physical page at @addr. */
static uint64_t physical(int pagemap, const char *addr)
{
	uint64_t entry = 0;

	if (pread(pagemap, &entry, sizeof(entry), (uintptr_t)addr / 4096 * 8) != sizeof(entry))
		err(1, "/proc/self/pagemap");
	return entry & ((1ull << 55) - 1);
}

static int pagemap;

/* Huge pages in descending order of their physical addresses. */
static int compare_physical(const void *a, const void *b)
{
	uint64_t x = physical(pagemap, *(char *const *)a), y = physical(pagemap, *(char *const *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static char *reserve(size_t size, int prot)
{
	char *addr = mmap(NULL, size + HUGE_PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		err(1, "mmap %zu bytes", size);
	return addr + -(uintptr_t)addr % HUGE_PAGE;
}

/*
 * Host memory of which the physical layout is always the same: in huge pages, of which no two
 * are adjacent in ascending order, since the kernel joins these.
 */
static char *host_memory(size_t size)
{
	size_t n = (size + HUGE_PAGE - 1) / HUGE_PAGE;
	char *from = reserve(n * HUGE_PAGE, PROT_READ | PROT_WRITE);
	char *to = reserve(n * HUGE_PAGE, PROT_NONE);
	char *page[n];

	madvise(from, n * HUGE_PAGE, MADV_HUGEPAGE);
	memset(from, 1, n * HUGE_PAGE);
	for (size_t i = 0; i < n; i++)
		page[i] = from + i * HUGE_PAGE;
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		err(1, "/proc/self/pagemap");
	qsort(page, n, sizeof(*page), compare_physical);
	close(pagemap);
	for (size_t i = 0; i < n; i++)
		if (mremap(page[i], HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   to + i * HUGE_PAGE) == MAP_FAILED)
			err(1, "mremap");
	return to;
}

static char *bar_memory(size_t size)
{
	char *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bar, 0);

	if (addr == MAP_FAILED)
		err(1, "mmap %zu bytes of the BAR", size);
	return addr;
}

static void register_memory(struct costs *costs, void *addr, size_t size)
{
	struct ibv_mr *mr;

	bench_begin();
	mr = ibv_reg_mr(rdma.pd, addr, size, ACCESS_ALL);
	record(costs, 0, "register");
	if (!mr)
		err(1, "ibv_reg_mr of %zu bytes", size);
	bench_begin();
	errno = ibv_dereg_mr(mr);
	record(costs, 1, "deregister");
	if (errno)
		err(1, "ibv_dereg_mr");
}

static void export_memory(struct costs *costs, int control, void *addr, size_t size)
{
	struct ib_peer_mem_export export = {
		.version = IB_PEER_MEM_EXPORT_VERSION,
		.addr = (uintptr_t)addr,
		.length = size,
	};
	struct ibv_mr *mr;
	int ret;

	bench_begin();
	ret = ioctl(control, IB_PEER_MEM_IOC_EXPORT, &export);
	record(costs, 0, "export");
	if (ret)
		err(1, "IB_PEER_MEM_IOC_EXPORT of %zu bytes", size);
	/* The first import has the client map the memory; later ones are the driver's alone. */
	mr = ibv_reg_dmabuf_mr(rdma.pd, 0, size, (uintptr_t)addr, export.fd, ACCESS_ALL);
	if (!mr)
		err(1, "ibv_reg_dmabuf_mr of %zu bytes", size);
	bench_begin();
	struct ibv_mr *second = ibv_reg_dmabuf_mr(rdma.pd, 0, size, (uintptr_t)addr, export.fd,
						  ACCESS_ALL);
	record(costs, 1, "register");
	if (!second)
		err(1, "ibv_reg_dmabuf_mr of %zu bytes", size);
	bench_begin();
	errno = ibv_dereg_mr(second);
	record(costs, 2, "deregister");
	if (errno || (errno = ibv_dereg_mr(mr)))
		err(1, "ibv_dereg_mr");
	close(export.fd);
}

static void map_memory(struct costs *costs, size_t size)
{
	volatile char *addr;

	bench_begin();
	addr = bar_memory(size);
	addr[0] = 1;
	record(costs, 0, "map");
	bench_begin();
	munmap((void *)addr, size);
	record(costs, 1, "unmap");
}

static void measure(const char *label, const char *target, size_t size)
{
	static struct costs costs;
	int rounds = size > 4 << 20 ? 7 : ROUNDS;
	struct ibv_mr *other = NULL;
	char *addr = NULL, *other_addr = NULL;
	int control = -1;

	memset(&costs, 0, sizeof(costs));
	if (strcmp(target, "host") == 0)
		addr = host_memory(size);
	else if (strcmp(target, "map"))
		addr = bar_memory(size);
	if (strcmp(target, "bar") == 0) {
		other_addr = bar_memory(4096);
		other = rdma_register(&rdma, other_addr, 4096);
	}
	if (strcmp(target, "dmabuf") == 0) {
		control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
		if (control < 0)
			err(1, "/dev/ib_peer_mem");
	}
	for (int i = -WARM_UP; i < rounds; i++) {
		costs.round = i < 0 ? 0 : i;
		if (profile && i == rounds - 1)
			trace_begin();
		if (control >= 0)
			export_memory(&costs, control, addr, size);
		else if (addr)
			register_memory(&costs, addr, size);
		else
			map_memory(&costs, size);
	}
	trace("0");
	costs.round = rounds;
	report(&costs, label, target, size);
	if (other) {
		rdma_deregister(other);
		munmap(other_addr, 4096);
	}
	if (addr)
		munmap(addr, size);
	if (control >= 0)
		close(control);
}

int main(int argc, char **argv)
{
	enum bench_clock clock = BENCH_TSC;
	char *target, *path;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		if (strcmp(argv[1], "-c") == 0)
			clock = BENCH_CPU;
		else
			profile = 1;
	}
	if (argc < 5)
		errx(2, "usage: bench_mr [-c] DEVICE LABEL host|bar:PATH|first:PATH|dmabuf:PATH|map:PATH SIZE...");
	rdma = rdma_open(argv[1]);
	target = argv[3];
	path = strchr(target, ':');
	if (path) {
		*path++ = 0;
		bar = open(path, O_RDWR | O_CLOEXEC);
		if (bar < 0)
			err(1, "%s", path);
	}
	bench_clock_init(clock);
	for (int i = 4; i < argc; i++)
		measure(argv[2], target, strtoul(argv[i], NULL, 0));
	rdma_close(&rdma);
	return 0;
}
