// SPDX-License-Identifier: GPL-2.0
/*
 * bench_threads STATE TARGET DEVICE DEVICE: how many times as many registrations and deregistrations of
 * 4 KiB two threads do than one thread, by the clock. Each thread has a protection domain of its
 * own, of the first device (one) or of a device each (two; only if the devices differ). TARGET:
 * spin, a loop that uses no device, for what the machine can give; host; bar:PATH. Prints rows
 * as bench_clock.h describes them, in thousandths, with the label one-STATE or two-STATE.
 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench_buffer.h"
#include "bench_clock.h"
#include "verbs.h"

#define SIZE 4096
#define ROUNDS 15
#define WINDOW_US 150000

struct worker {
	pthread_t thread;
	struct rdma rdma;
	char *addr;
	double rate;	/* operations in a second */
};

static const char *state, *target;
static int file = -1;
static atomic_int stop;
static pthread_barrier_t start;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void operate(struct worker *w)
{
	if (strcmp(target, "spin") == 0) {
		for (volatile int i = 0; i < 1000; i++)
			;
	} else {
		rdma_deregister(rdma_register(&w->rdma, w->addr, SIZE));
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;
	double begin, end;
	long n = 0;

	pthread_barrier_wait(&start);
	begin = now();
	do {
		operate(w);
		n++;
		end = now();
	} while (!atomic_load_explicit(&stop, memory_order_relaxed));
	w->rate = n / (end - begin);
	return NULL;
}

/* The operations in a second of the @n threads together. */
static double rate(struct worker *w, int n)
{
	double sum = 0;

	stop = 0;
	pthread_barrier_init(&start, NULL, n + 1);
	for (int i = 0; i < n; i++)
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			errx(1, "pthread_create");
	pthread_barrier_wait(&start);
	usleep(WINDOW_US);
	stop = 1;
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		sum += w[i].rate;
	}
	pthread_barrier_destroy(&start);
	return sum;
}

/* Another MR on the memory stays, so that no PD has a first one. */
static void set_up(struct worker *w)
{
	if (strcmp(target, "spin") == 0)
		return;
	w->addr = file < 0 ? buffer_host(SIZE) : buffer_map(file, SIZE);
	rdma_register(&w->rdma, w->addr, SIZE);
}

static void measure(const char *devices, struct worker w[2])
{
	uint64_t ratio[ROUNDS];
	char label[32], name[32];

	set_up(&w[0]);
	set_up(&w[1]);
	rate(w, 2);
	for (int i = 0; i < ROUNDS; i++) {
		/* The speed of the machine may change: before and after. */
		double one = rate(w, 1), two = rate(w, 2);

		one = (one + rate(w, 1)) / 2;
		ratio[i] = 1000 * two / one + 0.5;
	}
	snprintf(name, sizeof(name), "threads-%s", target);
	snprintf(label, sizeof(label), "%s-%s", devices, state);
	bench_row(label, name, SIZE, "ratio", ratio, ROUNDS);
}

int main(int argc, char **argv)
{
	struct worker one[2], two[2];
	char *path;

	if (argc != 5)
		errx(2, "usage: bench_threads STATE TARGET[:PATH] DEVICE DEVICE");
	state = argv[1];
	target = argv[2];
	path = strchr(target, ':');
	if (path) {
		*path++ = 0;
		file = buffer_open(path);
	}
	one[0].rdma = two[0].rdma = one[1].rdma = rdma_open(argv[3]);
	one[1].rdma.pd = ibv_alloc_pd(one[1].rdma.context);
	if (!one[1].rdma.pd)
		err(1, "ibv_alloc_pd");
	measure("one", one);
	if (strcmp(argv[3], argv[4]) == 0)
		return 0;
	two[1].rdma = rdma_open(argv[4]);
	measure("two", two);
	return 0;
}
