// SPDX-License-Identifier: GPL-2.0
/*
 * bench_threads STATE TARGET[:PATH] DEVICE DEVICE: how many times as many registrations and
 * deregistrations of 4 KiB two threads do than one thread, by the clock. Each thread has a protection
 * domain of its own, of the first device (one) or of a device each (two). TARGET: host, bar. Prints
 * rows of label, target, size, operation, median, and the quartiles, all in thousandths, with the
 * label one-STATE or two-STATE. Operations:
 *   ratio     two threads / one
 *   loop      the same of a loop that uses no device
 *   relative  the first / the second, of windows that follow each other
 *   busy      the number of CPUs that are busy while one thread works
 *   busy-two  the same while two do
 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench_buffer.h"
#include "bench_clock.h"
#include "verbs.h"

#define SIZE 4096
#define ROUNDS 31
#define WINDOW_US 50000

struct worker {
	pthread_t thread;
	struct rdma rdma;
	char *addr;
	double rate;	/* operations in a second */
	int loop;	/* uses no device */
};

/* What a window has shown. */
struct window {
	double rate, busy;
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
	if (w->loop) {
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

/* @n threads together. */
static struct window work_for_a_window(struct worker *w, int n, int loop)
{
	struct window window = {};
	uint64_t tasks = bench_tasks_time();
	double begin = now();

	stop = 0;
	pthread_barrier_init(&start, NULL, n + 1);
	for (int i = 0; i < n; i++) {
		w[i].loop = loop;
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			errx(1, "pthread_create");
	}
	pthread_barrier_wait(&start);
	usleep(WINDOW_US);
	stop = 1;
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		window.rate += w[i].rate;
	}
	pthread_barrier_destroy(&start);
	window.busy = (bench_tasks_time() - tasks) * 1e-9 / (now() - begin);
	return window;
}

/* Another MR on the memory stays, so that no PD has a first one. */
static void set_up(struct worker *w)
{
	w->addr = file < 0 ? buffer_host(SIZE) : buffer_map(file, SIZE);
	rdma_register(&w->rdma, w->addr, SIZE);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void row(const char *devices, const char *operation, double figure[ROUNDS])
{
	qsort(figure, ROUNDS, sizeof(*figure), compare);
	printf("%s-%s threads-%s %d %s %.0f %.0f %.0f\n", devices, state, target, SIZE, operation,
	       1000 * figure[ROUNDS / 2], 1000 * figure[ROUNDS / 4],
	       1000 * figure[ROUNDS - 1 - ROUNDS / 4]);
	fflush(stdout);
}

static void measure(const char *devices, struct worker w[2])
{
	double ratio[ROUNDS], loop[ROUNDS], relative[ROUNDS], busy[2][ROUNDS];

	set_up(&w[0]);
	set_up(&w[1]);
	work_for_a_window(w, 2, 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct window of[2][2];

		/* The speed of the machine changes: in the opposite order each second time. */
		for (int j = 0; j < 4; j++) {
			int k = i % 2 ? 3 - j : j;
			int two = k == 1 || k == 2, device = k / 2;

			of[device][two] = work_for_a_window(w, 1 + two, !device);
		}
		ratio[i] = of[1][1].rate / of[1][0].rate;
		loop[i] = of[0][1].rate / of[0][0].rate;
		relative[i] = ratio[i] / loop[i];
		for (int two = 0; two < 2; two++)
			busy[two][i] = of[1][two].busy;
	}
	row(devices, "ratio", ratio);
	row(devices, "loop", loop);
	row(devices, "relative", relative);
	row(devices, "busy", busy[0]);
	row(devices, "busy-two", busy[1]);
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
	two[1].rdma = rdma_open(argv[4]);
	measure("two", two);
	return 0;
}
