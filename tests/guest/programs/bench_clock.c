// SPDX-License-Identifier: GPL-2.0

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define WORKERS 256

static enum bench_clock clock_used;
static struct {
	int pid, schedstat;
} worker[WORKERS];
static int workers;
static uint64_t before, workers_before, overhead;

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
		before = thread_time();
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
		cost = thread_time() - before;
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
