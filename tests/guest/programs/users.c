// SPDX-License-Identifier: GPL-2.0
/*
 * users DEVICE BAR PROCESSES USERS: so many processes of so many users, each of which maps, exports,
 * names, registers and releases ranges of the BAR until it gets SIGTERM. Operations may fail. Prints
 * "running" when all are, and forwards SIGTERM; then prints how many operations succeeded and failed. A
 * process that ends in another way is a failure.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "common.h"
#include "verbs.h"

#define LENGTH (256ul << 10)
#define FIRST_UID 20001

static volatile sig_atomic_t stopped;
static struct { long good, bad; } *counts;

static void stop(int signal)
{
	stopped = signal;
}

/* Counts an operation; returns whether it succeeded. */
static bool did(bool good)
{
	__atomic_add_fetch(good ? &counts->good : &counts->bad, 1, __ATOMIC_RELAXED);
	return good;
}

static void register_once(struct rdma *rdma, void *addr)
{
	struct ibv_mr *mr = ibv_reg_mr(rdma->pd, addr, LENGTH, ACCESS_ALL);

	if (did(mr))
		ibv_dereg_mr(mr);
}

/* Another range of addresses names the memory at @addr. */
static void name_once(struct rdma *rdma, int control, void *addr, void *name)
{
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION, .addr = (uintptr_t)name, .length = LENGTH,
	};

	arg.fd = export_range(control, addr, LENGTH);
	if (!did(arg.fd >= 0))
		return;
	if (did(!ioctl(control, IB_PEER_MEM_IOC_NAME, &arg))) {
		register_once(rdma, name);
		did(!ioctl(control, IB_PEER_MEM_IOC_UNNAME, &arg));
	}
	close(arg.fd);
}

static int use(const char *device, const char *path, int ready)
{
	struct rdma rdma = rdma_open(device);
	int control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
	void *name = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (control < 0 || name == MAP_FAILED || write(ready, "", 1) != 1)
		err(1, "process");
	while (!stopped) {
		int file = open(path, O_RDWR | O_CLOEXEC);
		void *addr = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

		if (did(addr != MAP_FAILED)) {
			register_once(&rdma, addr);
			name_once(&rdma, control, addr, name);
			munmap(addr, LENGTH);
		} else {
			usleep(10000);
		}
		close_quietly(file);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	int processes, users, status, ready[2], failed = 0;
	char byte;

	if (argc != 5)
		errx(2, "usage: users DEVICE BAR PROCESSES USERS");
	processes = atoi(argv[3]);
	users = atoi(argv[4]);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* A group of its own, for SIGTERM. */
	if (counts == MAP_FAILED || pipe(ready) || setpgid(0, 0))
		err(1, "pipe");
	sigaction(SIGTERM, &action, NULL);
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid)
			continue;
		if (setuid(FIRST_UID + i % users))
			err(1, "setuid");
		exit(use(argv[1], argv[2], ready[1]));
	}
	close(ready[1]);
	for (int i = 0; i < processes; i++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "only %d processes run", i);
	puts("running");
	fflush(stdout);
	while (!stopped)
		pause();
	kill(0, SIGTERM);
	for (int i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			failed++;
	printf("%ld operations succeeded, %ld failed, %d processes ended badly\n", counts->good,
	       counts->bad, failed);
	return !!failed;
}
