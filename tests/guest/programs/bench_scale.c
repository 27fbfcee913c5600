// SPDX-License-Identifier: GPL-2.0
/*
 * bench_scale PATH PROCESSES MRS END... -- DEVICE...: for each DEVICE starts so many processes, each
 * of which maps a page of the file PATH of its own and registers it MRS times with the device, all at
 * the same time. Then has each END, one after the other:
 *   NAME:COUNT:COMMAND  this shell command ends the MRs of so many devices
 *   NAME:COUNT          all processes are killed, while so many devices have MRs
 * Prints how many instructions of all tasks a registration costs, and each end for one MR; see
 * bench.h:
 *   DEVICES NAME MRS COST
 */
#include <err.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PAGE 4096

static const char *path;
static int processes, mrs, devices;

/* Closed when all may begin. */
static int begin[2];
/* A byte of each process: it is ready; it has registered. */
static int done[2];

static void report(void)
{
	if (write(done[1], "", 1) != 1)
		err(1, "pipe");
}

static void await(int count)
{
	char bytes[256];

	while (count) {
		ssize_t n = read(done[0], bytes, count < (int)sizeof(bytes) ? count : (int)sizeof(bytes));

		if (n <= 0)
			errx(1, "a process has ended");
		count -= n;
	}
}

static void run(const char *device)
{
	struct rdma rdma = rdma_open(device);
	char *addr = bench_map(bench_open(path), PAGE), byte;

	close(done[0]);
	close(begin[1]);
	report();
	if (read(begin[0], &byte, 1))
		err(1, "pipe");
	for (int i = 0; i < mrs; i++)
		rdma_register(&rdma, addr, PAGE);
	report();
	for (;;)
		pause();
}

static void row(const char *what, int of_devices, uint64_t cost)
{
	long count = (long)of_devices * processes * mrs;

	printf("%d %s %ld %ju\n", devices, what, count, (uintmax_t)(cost / count));
	fflush(stdout);
}

static void kill_all(const pid_t *pid, int count)
{
	for (int i = 0; i < count; i++)
		kill(pid[i], SIGKILL);
	for (int i = 0; i < count; i++)
		if (waitpid(pid[i], NULL, 0) != pid[i])
			err(1, "waitpid");
}

int main(int argc, char **argv)
{
	int ends = 4, first, count;
	bool killed = false;
	pid_t *pid;

	for (first = ends; first < argc && strcmp(argv[first], "--"); first++)
		;
	if (first + 1 >= argc)
		errx(2, "usage: bench_scale PATH PROCESSES MRS END... -- DEVICE...");
	path = argv[1];
	processes = atoi(argv[2]);
	mrs = atoi(argv[3]);
	devices = argc - first - 1;
	count = devices * processes;
	pid = calloc(count, sizeof(*pid));
	if (!pid || pipe(begin) || pipe(done))
		err(1, "start");

	for (int i = 0; i < count; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			err(1, "fork");
		if (!pid[i])
			run(argv[first + 1 + i / processes]);
	}
	/* So that the end of a process is an end of the pipe, sooner or later. */
	close(done[1]);
	await(count);

	bench_clock_init(BENCH_TASKS);
	bench_begin();
	close(begin[1]);
	await(count);
	row("register", devices, bench_end());
	for (int i = ends; i < first; i++) {
		char *name = strtok(argv[i], ":"), *of_devices = strtok(NULL, ":"), *command = strtok(NULL, "");

		if (!of_devices)
			errx(2, "no such end: %s", argv[i]);
		bench_begin();
		if (!command)
			kill_all(pid, count);
		else if (system(command))
			errx(1, "failed: %s", command);
		row(name, atoi(of_devices), bench_end());
		killed |= !command;
	}
	if (!killed)
		kill_all(pid, count);
	return 0;
}
