// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_kmem.h"

const char *const bench_kmem_name[BENCH_KMEM_KINDS] = {
	"memory", "memory-slab", "memory-vmalloc", "memory-charged",
};

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

struct bench_kmem bench_kmem_read(const char *cgroup)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	struct bench_kmem kmem;
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
	/* Its pages stay with the slab allocator when objects are freed. */
	kmem.bytes[BENCH_KMEM_SLAB] = slab_objects();
	/* Grows when memory is used. */
	kmem.bytes[BENCH_KMEM_ALL] = (UINT32_MAX - free - users - slab) * page +
				     kmem.bytes[BENCH_KMEM_SLAB];
	kmem.bytes[BENCH_KMEM_VMALLOC] = sum_of("/proc/meminfo", "VmallocUsed:") * 1024;
	snprintf(path, sizeof(path), "%s/memory.stat", cgroup);
	kmem.bytes[BENCH_KMEM_CHARGED] = sum_of(path, "kernel ");
	return kmem;
}
