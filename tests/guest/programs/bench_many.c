// SPDX-License-Identifier: GPL-2.0
/*
 * bench_many [-m CGROUP] DEVICE TARGET SIZE END COUNT: registers COUNT MRs of SIZE bytes on the same
 * memory, beside one more, and measures how they end, in instructions; see bench.h.
 * TARGET: memory (a page of bench_memory.ko), and those of bench_mr that have a path. END:
 *   invalidate      the client of TARGET memory invalidates them
 *   unregister      it is unregistered
 *   none            nothing is measured
 * Prints a row for the end, with the cost of all COUNT, and the label COUNT. With -m prints a row
 * for each kind of memory of the kernel that COUNT MRs take, in bytes; CGROUP is the directory of
 * the process's memory cgroup.
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

static const char *device, *target, *cgroup;
static size_t size;
static int count;

static struct rdma rdma;
static struct ibv_mr **mrs;
/* A device that is mapped. */
static int file = -1;
/* A dma-buf of the memory, else -1. */
static int dmabuf = -1;
static char *addr;

/* How much memory the kernel uses. */
enum kmem_kind {
	KMEM_ALL,	/* that is not free, without that of processes and files */
	KMEM_CHARGED,	/* kernel memory of the memory cgroup */
	KMEM_KINDS,
};

struct kmem {
	uint64_t bytes[KMEM_KINDS];
};

/* The operations of the rows. */
static const char *const kmem_name[KMEM_KINDS] = { "memory", "memory-charged" };

/* The sum of the numbers behind @name in the lines of a file. */
static uint64_t sum_of(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	uint64_t sum = 0;
	char line[256];

	if (!f)
		err(1, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		char *start = line + strspn(line, " ");
		uintmax_t n;

		if (strncmp(start, name, strlen(name)) == 0 &&
		    sscanf(start + strlen(name), " %ju", &n) == 1)
			sum += n;
	}
	fclose(f);
	return sum;
}

/* The bytes of all objects of the slab allocator. */
static uint64_t slab_objects(void)
{
	FILE *f = fopen("/proc/slabinfo", "r");
	uintmax_t objects, size;
	uint64_t sum = 0;
	char line[512];

	if (!f)
		err(1, "/proc/slabinfo");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %ju %*u %ju", &objects, &size) == 2)
			sum += objects * size;
	fclose(f);
	return sum;
}

static struct kmem kmem_read(void)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	struct kmem kmem;
	uint64_t free, users, slab;
	char path[300];
	FILE *refresh = fopen("/proc/sys/vm/stat_refresh", "w");

	/* Has each CPU add up what it has counted. */
	if (!refresh || fputs("1", refresh) < 0 || fclose(refresh))
		err(1, "/proc/sys/vm/stat_refresh");
	/* The free pages that a CPU keeps are not in the first figure. */
	free = sum_of("/proc/zoneinfo", "pages free") + sum_of("/proc/zoneinfo", "count:");
	users = sum_of("/proc/vmstat", "nr_anon_pages ") + sum_of("/proc/vmstat", "nr_file_pages ");
	slab = sum_of("/proc/vmstat", "nr_slab_reclaimable ") +
	       sum_of("/proc/vmstat", "nr_slab_unreclaimable ");
	/* Grows when memory is used. The pages of objects stay with the slab allocator when these are freed. */
	kmem.bytes[KMEM_ALL] = (UINT32_MAX - free - users - slab) * page + slab_objects();
	snprintf(path, sizeof(path), "%s/memory.stat", cgroup);
	kmem.bytes[KMEM_CHARGED] = sum_of(path, "kernel ");
	return kmem;
}

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
	struct kmem before, after;
	char label[16], name[32];

	if (cgroup) {
		/* Memory that waits for RCU is freed within 5 s. */
		sleep(6);
		before = kmem_read();
	}
	for (int i = 0; i < count; i++)
		mrs[i] = register_one();
	if (!cgroup)
		return;
	after = kmem_read();
	snprintf(label, sizeof(label), "%d", count);
	snprintf(name, sizeof(name), "many-%s", target);
	for (int i = 0; i < KMEM_KINDS; i++) {
		uint64_t bytes = after.bytes[i] > before.bytes[i] ? after.bytes[i] - before.bytes[i] : 0;

		bench_row(label, name, size, kmem_name[i], &bytes, 1);
	}
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

	if (argc > 2 && strcmp(argv[1], "-m") == 0) {
		cgroup = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc != 6)
		errx(2, "usage: bench_many [-m CGROUP] DEVICE TARGET[:PATH] SIZE END COUNT");
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
	if (strcmp(end, "none") == 0) {
		register_all();
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
