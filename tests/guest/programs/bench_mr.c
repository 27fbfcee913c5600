// SPDX-License-Identifier: GPL-2.0
/*
 * bench_mr [-c] DEVICE LABEL TARGET SIZE...: what a registration costs, in instructions; see
 * bench.h. -c: by CPU time, on a driver that keeps the keys of MRs for later ones. TARGET:
 *   host         host memory
 *   bar:PATH     a BAR, by ibv_reg_mr; also other memory of a client
 *   mmio:PATH    the same, of a BAR without struct pages
 *   first:PATH   the same, as the only MR on a BAR in its PD
 *   dmabuf:PATH  the same memory exported as a dma-buf, by ibv_reg_dmabuf_mr
 *   table:PATH   memory of bench_memory.ko without struct pages, by ibv_reg_mr
 *   table-dmabuf:PATH  the same, by ibv_reg_dmabuf_mr of a dma-buf of bench_memory.ko
 *   heap:PATH    a mapping of a dma-buf of the dma-heap, by ibv_reg_mr
 *   heap-dmabuf:PATH  the same, by ibv_reg_dmabuf_mr
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

#include "bench.h"
#include "exporter.h"

#define ROUNDS 33
#define WARM_UP 3
#define OPERATIONS 4
#define SPARE 2
/* Above these sizes there are fewer rounds. */
#define LARGE (4ul << 20)
#define VAST (1ul << 30)

/* What one round of a target costs. */
struct costs {
	const char *name[OPERATIONS];
	uint64_t cost[OPERATIONS][ROUNDS];
	int round;
};

static struct rdma rdma;
static int bar = -1;
static enum bench_clock clock_used = BENCH_TSC;
/* Other MRs on the memory of a round. */
static struct ibv_mr *spare[2 * SPARE + 1];
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

/*
 * Has the driver keep some keys. ib_core has the keys of deregistered MRs in pages of 1,020. The
 * registration that takes the last key of a page frees it, and the next deregistration gets and
 * clears a page, which is some 4,000 instructions. Here keys come back before each round, and the
 * number of those that are in use differs between rounds, so that the usual round is without both.
 */
static void spare_begin(int dmabuf, void *addr, size_t size, int stay)
{
	/* Of a large MR these are no part that counts. */
	if (clock_used != BENCH_CPU || size > LARGE)
		return;
	for (int i = 0; i < SPARE + stay; i++)
		spare[i] = bench_register(&rdma, dmabuf, addr, size);
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
	mr = bench_register(&rdma, dmabuf, addr, size);
	record(costs, 0, "register");
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
	fd = bench_export("dmabuf", control, addr, size);
	record(costs, 0, "export");
	/* The first import has the client map the memory; later ones are the driver's alone. */
	mr = bench_register(&rdma, fd, addr, size);
	spare_begin(fd, addr, size, costs->round % (SPARE + 1));
	bench_begin();
	second = bench_register(&rdma, fd, addr, size);
	record(costs, 1, "register");
	bench_begin();
	errno = ibv_dereg_mr(second);
	record(costs, 2, "deregister");
	spare_end();
	if (errno || (errno = ibv_dereg_mr(mr)))
		err(1, "ibv_dereg_mr");
	close(fd);
}

static void measure(const char *label, const char *target, size_t size)
{
	static struct costs costs;
	int rounds = size >= VAST ? 5 : size > LARGE ? 7 : ROUNDS;
	struct ibv_mr *other = NULL;
	char *addr, *other_addr = NULL;
	struct exported heap;
	int control = -1, dmabuf = -1;

	memset(&costs, 0, sizeof(costs));
	if (strcmp(target, "host") == 0) {
		addr = bench_host(size);
	} else if (strncmp(target, "heap", 4) == 0) {
		if (exporter_make(&heap, "heap:system", size))
			err(1, "a dma-buf of %zu bytes", size);
		dmabuf = heap.dmabuf;
		addr = bench_map(dmabuf, size);
	} else {
		addr = bench_map(bar, size);
	}
	if (strcmp(target, "bar") == 0 || strcmp(target, "mmio") == 0) {
		other_addr = bench_map(bar, 4096);
		other = rdma_register(&rdma, other_addr, 4096);
	}
	if (strcmp(target, "table-dmabuf") == 0)
		dmabuf = bench_export(target, bar, addr, size);
	if (strcmp(target, "dmabuf") == 0)
		control = bench_open("/dev/ib_peer_mem");
	for (int i = size >= VAST ? -1 : -WARM_UP; i < rounds; i++) {
		costs.round = i < 0 ? 0 : i;
		if (control >= 0)
			import_memory(&costs, control, addr, size);
		else
			register_memory(&costs, strcmp(target, "heap") ? dmabuf : -1, addr, size,
					strcmp(target, "first") == 0);
	}
	costs.round = rounds;
	report(&costs, label, target, size);
	if (other) {
		rdma_deregister(other);
		munmap(other_addr, 4096);
	}
	munmap(addr, size);
	if (control >= 0)
		close(control);
	if (dmabuf >= 0)
		close(dmabuf);
}

int main(int argc, char **argv)
{
	char *target, *path;

	if (argc > 1 && strcmp(argv[1], "-c") == 0) {
		clock_used = BENCH_CPU;
		argc--;
		argv++;
	}
	if (argc < 5)
		errx(2, "usage: bench_mr [-c] DEVICE LABEL TARGET[:PATH] SIZE...");
	rdma = rdma_open(argv[1]);
	target = argv[3];
	path = strchr(target, ':');
	if (path) {
		*path++ = 0;
		bar = bench_open(path);
	}
	bench_clock_init(clock_used);
	for (int i = 4; i < argc; i++)
		measure(argv[2], target, strtoul(argv[i], NULL, 0));
	rdma_close(&rdma);
	return 0;
}
