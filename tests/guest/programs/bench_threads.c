// SPDX-License-Identifier: GPL-2.0
/*
 * bench_threads DEVICE TARGET[:PATH] THREADS COUNT: THREADS threads register and deregister 4 KiB COUNT
 * times each, with a protection domain each, all at the same time. TARGET: host, bar.
 */
#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SIZE 4096

static struct rdma rdma;
static int file = -1;
static pthread_barrier_t start;

static void *work(void *argument)
{
	const int *count = argument;
	struct rdma own = rdma;
	char *addr = file < 0 ? bench_host(SIZE) : bench_map(file, SIZE);

	own.pd = ibv_alloc_pd(own.context);
	if (!own.pd)
		err(1, "ibv_alloc_pd");
	/* Another MR on the memory stays, so that the PD has no first one. */
	rdma_register(&own, addr, SIZE);
	pthread_barrier_wait(&start);
	for (int i = 0; i < *count; i++)
		rdma_deregister(rdma_register(&own, addr, SIZE));
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc == 5 ? atoi(argv[3]) : 0, count;
	char *path;
	pthread_t thread[64];

	if (threads < 1 || threads > 64)
		errx(2, "usage: bench_threads DEVICE TARGET[:PATH] THREADS COUNT");
	rdma = rdma_open(argv[1]);
	path = strchr(argv[2], ':');
	if (path)
		file = bench_open(path + 1);
	count = atoi(argv[4]);
	pthread_barrier_init(&start, NULL, threads);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, &count))
			errx(1, "pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
