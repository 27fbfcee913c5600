// SPDX-License-Identifier: GPL-2.0

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench_clock.h"

#define WORKERS 256

static enum bench_clock clock_used;
static int worker[WORKERS];
static int workers;
static uint64_t thread_before, workers_before, overhead;

static uint64_t tsc(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
#endif
}

static uint64_t thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Opens the accounting of the kernel's workers that exist now. */
static void find_workers(void)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	if (!proc)
		err(1, "/proc");
	while ((entry = readdir(proc)) && workers < WORKERS) {
		char path[300], name[32] = "";
		int fd;

		if (!isdigit(entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		if (read(fd, name, sizeof(name) - 1) < 0)
			name[0] = 0;
		close(fd);
		if (strncmp(name, "kworker/", 8))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/schedstat", entry->d_name);
		fd = open(path, O_RDONLY);
		if (fd >= 0)
			worker[workers++] = fd;
	}
	closedir(proc);
}

static uint64_t workers_time(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < workers; i++) {
		char text[80] = "";

		if (pread(worker[i], text, sizeof(text) - 1, 0) > 0)
			sum += strtoull(text, NULL, 10);
	}
	return sum;
}

void bench_begin(void)
{
	if (clock_used == BENCH_TSC) {
		thread_before = tsc();
		return;
	}
	workers_before = workers_time();
	thread_before = thread_time();
}

uint64_t bench_end(void)
{
	uint64_t cost;

	if (clock_used == BENCH_TSC) {
		cost = tsc() - thread_before;
	} else {
		cost = thread_time() - thread_before;
		cost += workers_time() - workers_before;
	}
	return cost > overhead ? cost - overhead : 0;
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
