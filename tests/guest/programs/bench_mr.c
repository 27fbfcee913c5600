// SPDX-License-Identifier: GPL-2.0
/*
 * bench_mr [-p] [-c] DEVICE LABEL TARGET SIZE...: what a registration costs, in instructions; see
 * bench_clock.h. -c: by CPU time, on a driver that keeps the keys of MRs for later ones. -p: ftrace
 * traces the last round. TARGET:
 *   host         host memory
 *   bar:PATH     a BAR, by ibv_reg_mr
 *   first:PATH   the same, as the only MR on a BAR in its PD
 *   dmabuf:PATH  the same memory exported as a dma-buf, by ibv_reg_dmabuf_mr
 *   export:PATH  exporting it, without an MR
 *   heap:PATH    a mapping of a dma-buf of the dma-heap, by ibv_reg_mr
 *   heap-dmabuf:PATH  the same, by ibv_reg_dmabuf_mr
 *   map:PATH     mapping a BAR and touching a byte
 * Prints a line for each operation: label, target, size, operation, usual figure, least, most.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench_buffer.h"
#include "bench_clock.h"
#include "verbs.h"

#define ROUNDS 33
#define WARM_UP 3
#define OPERATIONS 4
#define SPARE 2

/* What one round of a target costs. */
struct costs {
	const char *name[OPERATIONS];
	uint64_t cost[OPERATIONS][ROUNDS];
	int round;
};

static struct rdma rdma;
static int bar = -1;
static int profile;
static enum bench_clock clock_used = BENCH_TSC;
/* Other MRs on the memory of a round. */
static struct ibv_mr *spare[2 * SPARE + 1];
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

static void report(struct costs *costs, const char *label, const char *target, size_t size)
{
	for (int i = 0; i < OPERATIONS && costs->name[i]; i++)
		bench_row(label, target, size, costs->name[i], costs->cost[i], costs->round);
}

/* Registers memory, from its dma-buf if @dmabuf is not -1. */
static struct ibv_mr *register_range(int dmabuf, void *addr, size_t size)
{
	if (dmabuf < 0)
		return ibv_reg_mr(rdma.pd, addr, size, ACCESS_ALL);
	return ibv_reg_dmabuf_mr(rdma.pd, 0, size, (uintptr_t)addr, dmabuf, ACCESS_ALL);
}

/*
 * Has the driver keep some keys. ib_core has the keys of deregistered MRs in pages of 1,020. The
 * registration that takes the last key of a page frees it, and the next deregistration gets and
 * clears a page, which is some 4,000 instructions. Here keys come back before each round, and the
 * number of those that are in use differs between rounds, so that the usual round is without both.
 */
static void spare_begin(int dmabuf, void *addr, size_t size, int stay)
{
	if (clock_used != BENCH_CPU)
		return;
	for (int i = 0; i < SPARE + stay; i++) {
		spare[i] = register_range(dmabuf, addr, size);
		if (!spare[i])
			err(1, "another MR of %zu bytes", size);
	}
	for (int i = stay; i < SPARE + stay; i++) {
		rdma_deregister(spare[i]);
		spare[i] = NULL;
	}
}

static void spare_end(void)
{
	for (int i = 0; spare[i]; i++) {
		rdma_deregister(spare[i]);
		spare[i] = NULL;
	}
}

/* With @alone no other MR stays in the PD. */
static void register_memory(struct costs *costs, int dmabuf, void *addr, size_t size, int alone)
{
	struct ibv_mr *mr;

	spare_begin(dmabuf, addr, size, alone ? 0 : costs->round % (SPARE + 1));
	bench_begin();
	mr = register_range(dmabuf, addr, size);
	record(costs, 0, "register");
	if (!mr)
		err(1, "%s of %zu bytes", dmabuf < 0 ? "ibv_reg_mr" : "ibv_reg_dmabuf_mr", size);
	bench_begin();
	errno = ibv_dereg_mr(mr);
	record(costs, 1, "deregister");
	if (errno)
		err(1, "ibv_dereg_mr");
	spare_end();
}

static void import_memory(struct costs *costs, int control, void *addr, size_t size)
{
	struct ibv_mr *mr, *second;
	int fd;

	bench_begin();
	fd = buffer_export(control, addr, size);
	record(costs, 0, "export");
	/* The first import has the client map the memory; later ones are the driver's alone. */
	mr = register_range(fd, addr, size);
	if (!mr)
		err(1, "ibv_reg_dmabuf_mr of %zu bytes", size);
	spare_begin(fd, addr, size, costs->round % (SPARE + 1));
	bench_begin();
	second = register_range(fd, addr, size);
	record(costs, 1, "register");
	if (!second)
		err(1, "ibv_reg_dmabuf_mr of %zu bytes", size);
	bench_begin();
	errno = ibv_dereg_mr(second);
	record(costs, 2, "deregister");
	spare_end();
	if (errno || (errno = ibv_dereg_mr(mr)))
		err(1, "ibv_dereg_mr");
	close(fd);
}

static void export_memory(struct costs *costs, int control, void *addr, size_t size)
{
	int fd;

	bench_begin();
	fd = buffer_export(control, addr, size);
	record(costs, 0, "export");
	bench_begin();
	close(fd);
	record(costs, 1, "close");
}

static void map_memory(struct costs *costs, size_t size)
{
	volatile char *addr;

	bench_begin();
	addr = buffer_map(bar, size);
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
	int control = -1, heap = -1, dmabuf = -1;

	memset(&costs, 0, sizeof(costs));
	if (strcmp(target, "host") == 0)
		addr = buffer_host(size);
	else if (strncmp(target, "heap", 4) == 0)
		addr = buffer_map(heap = buffer_heap(bar, size), size);
	else if (strcmp(target, "map"))
		addr = buffer_map(bar, size);
	if (strcmp(target, "bar") == 0) {
		other_addr = buffer_map(bar, 4096);
		other = rdma_register(&rdma, other_addr, 4096);
	}
	if (strcmp(target, "heap-dmabuf") == 0)
		dmabuf = heap;
	if (strcmp(target, "dmabuf") == 0 || strcmp(target, "export") == 0)
		control = buffer_open("/dev/ib_peer_mem");
	for (int i = -WARM_UP; i < rounds; i++) {
		costs.round = i < 0 ? 0 : i;
		if (profile && i == rounds - 1)
			trace_begin();
		if (strcmp(target, "dmabuf") == 0)
			import_memory(&costs, control, addr, size);
		else if (control >= 0)
			export_memory(&costs, control, addr, size);
		else if (addr)
			register_memory(&costs, dmabuf, addr, size, strcmp(target, "first") == 0);
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
	if (heap >= 0)
		close(heap);
}

int main(int argc, char **argv)
{
	char *target, *path;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		if (strcmp(argv[1], "-c") == 0)
			clock_used = BENCH_CPU;
		else
			profile = 1;
	}
	if (argc < 5)
		errx(2, "usage: bench_mr [-c] DEVICE LABEL TARGET[:PATH] SIZE...");
	rdma = rdma_open(argv[1]);
	target = argv[3];
	path = strchr(target, ':');
	if (path) {
		*path++ = 0;
		bar = buffer_open(path);
	}
	bench_clock_init(clock_used);
	for (int i = 4; i < argc; i++)
		measure(argv[2], target, strtoul(argv[i], NULL, 0));
	rdma_close(&rdma);
	return 0;
}
