// SPDX-License-Identifier: GPL-2.0
/*
 * bench_many DEVICE TARGET SIZE END COUNT: registers COUNT MRs of SIZE bytes on the same
 * memory, beside one more, and measures how they end, in instructions; see bench.h.
 * TARGET: memory (a page of bench_memory.ko), and those of bench_mr that have a path. END:
 *   invalidate      the client of TARGET memory invalidates them
 *   unregister      it is unregistered
 *   wait            nothing is measured: registers after a line of input, and ends after another one
 * Prints a row for the end, with the cost of all COUNT, and the label COUNT.
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench.h"
#include "bench_memory.h"

#define ROUNDS 3
/*
 * One MR ends so often, one after the other, for the cost of one MR, and an end without MRs comes as
 * often. How long the kernel sleeps for an end depends on the time to the next tick, so many MRs cost as
 * much as that many average MRs.
 */
#define SINGLES 20

static const char *device, *target;
static size_t size;
static int count;

static struct rdma rdma;
static struct ibv_mr **mrs;
/* A device that is mapped. */
static int file = -1;
/* A dma-buf of the memory, else -1. */
static int dmabuf = -1;
static char *addr;

static struct ibv_mr *register_one(void)
{
	return bench_register(&rdma, dmabuf, addr, size);
}

/* Opens the device and registers the first MR, which stays. */
static void set_up(const char *path)
{
	rdma = rdma_open(device);
	file = bench_open(path);
	addr = bench_map(file, size);
	dmabuf = bench_export(target, strcmp(target, "dmabuf") ? file : bench_open("/dev/ib_peer_mem"), addr, size);
	register_one();
}

static void register_all(void)
{
	for (int i = 0; i < count; i++)
		mrs[i] = register_one();
}

static void deregister_all(void)
{
	for (int i = 0; i < count; i++)
		rdma_deregister(mrs[i]);
}

static void control(unsigned int request)
{
	if (ioctl(file, request, (unsigned long)count))
		err(1, "bench_memory");
}

static uint64_t end_once(bool unregister)
{
	uint64_t cost;

	register_all();
	bench_begin();
	control(unregister ? BENCH_MEMORY_UNREGISTER : BENCH_MEMORY_INVALIDATE);
	cost = bench_end();
	deregister_all();
	if (unregister) {
		control(BENCH_MEMORY_REGISTER);
		/* In the place of the one that has been revoked. */
		register_one();
	}
	return cost;
}

static uint64_t measure(const char *end)
{
	int again = count <= 1 ? SINGLES : 1;
	uint64_t cost = 0;

	for (int i = 0; i < again; i++)
		cost += end_once(!strcmp(end, "unregister"));
	return cost / again;
}

int main(int argc, char **argv)
{
	uint64_t cost[ROUNDS];
	char *path, *end, label[16], name[32];
	int rounds;

	if (argc != 6)
		errx(2, "usage: bench_many DEVICE TARGET[:PATH] SIZE END COUNT");
	device = argv[1];
	target = argv[2];
	size = strtoul(argv[3], NULL, 0);
	end = argv[4];
	count = atoi(argv[5]);
	path = strchr(target, ':');
	if (path)
		*path++ = 0;
	if (!path)
		path = "/dev/bench_memory";
	mrs = calloc(count + 1, sizeof(*mrs));
	if (!mrs)
		err(1, "memory");
	/* Touched, so that it does not count as used by the MRs. */
	memset(mrs, 1, count * sizeof(*mrs));

	bench_clock_init(BENCH_CPU);
	set_up(path);
	if (strcmp(end, "wait") == 0) {
		puts("begin");
		fflush(stdout);
		getchar();
		register_all();
		puts("registered");
		fflush(stdout);
		getchar();
		return 0;
	}
	rounds = count > 100 ? 1 : ROUNDS;
	for (int i = 0; i < rounds; i++)
		cost[i] = measure(end);
	snprintf(label, sizeof(label), "%d", count);
	snprintf(name, sizeof(name), "many-%s", target);
	bench_row(label, name, size, end, cost, rounds);
	return 0;
}
