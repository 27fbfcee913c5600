// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hint.h"
#include "sys.h"
#include "transfer.h"
#include "verbs.h"

#define LENGTH (64 << 10)
/* Of one transfer; an adapter that does not answer ends with an error before. */
#define SECONDS 60

/* Returns the GID for RoCE v2, if the port has one, else the first one. */
static int find_gid(const char *adapter)
{
	char type[32], gid[64];

	for (int i = 0; i < 256; i++) {
		if (!sys_line(gid, sizeof(gid), "/sys/class/infiniband/%s/ports/1/gids/%d", adapter, i))
			break;
		/* An index without a GID has no type. */
		if (sys_line(type, sizeof(type), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d",
			     adapter, i) && !strcmp(type, "RoCE v2"))
			return i;
	}
	return 0;
}

/* Other bytes in each run: with zero=never the memory may still have those of an earlier one. */
static uint64_t seed;

static unsigned char pattern(size_t i)
{
	/* The finalizer of MurmurHash3. */
	uint64_t word = seed + i / 8;

	word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
	word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
	return (unsigned char)((word ^ word >> 33) >> i % 8 * 8);
}

static char *map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char *addr;

	if (fd < 0) {
		int error = errno;

		warn("%s", path);
		hint_open(error);
		exit(1);
	}
	addr = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		err(1, "mmap of %d bytes of %s", LENGTH, path);
	close(fd);
	return addr;
}

/* The child: prints the cause of a failure on stderr. */
static void child(const char *adapter, const char *path)
{
	struct rdma rdma = rdma_open(adapter);
	struct ibv_mr *near, *far;
	struct timespec begin, end;
	char *memory = map(path), *host;
	struct pair pair;

	rdma.gid_index = find_gid(adapter);
	host = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		err(1, "mmap");
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		err(1, "getrandom");
	for (size_t i = 0; i < LENGTH; i++)
		host[i] = (char)pattern(i);
	far = rdma_register(&rdma, memory, LENGTH);
	near = rdma_register(&rdma, host, 2 * LENGTH);
	pair = pair_make(&rdma);

	clock_gettime(CLOCK_MONOTONIC, &begin);
	pair_must_rw(&pair, IBV_WR_RDMA_WRITE, near, host, far, memory, LENGTH);
	pair_must_rw(&pair, IBV_WR_RDMA_READ, near, host + LENGTH, far, memory, LENGTH);
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (size_t i = 0; i < LENGTH; i++) {
		unsigned char read = (unsigned char)host[LENGTH + i];
		unsigned char cpu = (unsigned char)*(volatile char *)(memory + i);

		if (read != pattern(i))
			errx(1, "byte %zu is %#x after RDMA READ, not %#x", i, read, pattern(i));
		if (cpu != pattern(i))
			errx(1, "byte %zu is %#x to the CPU, not %#x", i, cpu, pattern(i));
	}
	pair_free(&pair);
	rdma_deregister(near);
	rdma_deregister(far);
	rdma_close(&rdma);
	fprintf(stderr, "%d KiB written and read, bytes compared, %.1f ms\n", LENGTH >> 10,
		(double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6);
}

/* Reads what the child says, in one line. */
static void read_text(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n < size - 1 && (got = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)got;
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	for (char *at = text; (at = strchr(at, '\n'));)
		*at = ' ';
}

void transfer_run(struct transfer *transfer, const char *adapter, const char *path)
{
	int ends[2], status = 0;
	pid_t pid;

	memset(transfer, 0, sizeof(*transfer));
	if (pipe2(ends, O_CLOEXEC)) {
		snprintf(transfer->text, sizeof(transfer->text), "pipe: %s", strerror(errno));
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(SECONDS);
		dup2(ends[1], STDERR_FILENO);
		child(adapter, path);
		_exit(0);
	}
	close(ends[1]);
	read_text(ends[0], transfer->text, sizeof(transfer->text));
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		snprintf(transfer->text, sizeof(transfer->text), "fork: %s", strerror(errno));
	} else if (WIFSIGNALED(status)) {
		snprintf(transfer->text, sizeof(transfer->text), "ended by %s%s",
			 strsignal(WTERMSIG(status)),
			 WTERMSIG(status) == SIGALRM ? ": the adapter does not answer" : "");
	} else {
		transfer->ok = !WEXITSTATUS(status);
	}
}
