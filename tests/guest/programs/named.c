// SPDX-License-Identifier: GPL-2.0
/*
 * named - the names of memory: /dev/ib_peer_mem, or with -r /dev/dmabuf_reg
 *
 * usage: named [-r] TEST
 *
 * Runs a test and exits with 1 at the first wrong result. "hold" names two dma-bufs of PAGES pages,
 * closes them, prints "ready", and ends at the end of its input; "hold exec" executes sleep(1) then.
 * "hold child" has a child with the files of the process, but not its memory. "hold closed" has
 * closed the device as well.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <ib_peer_mem.h>

#include "common.h"

#define PAGE 4096ULL
/* Of the dma-bufs that "hold" has. No other has this size. */
#define PAGES 61
/* No memory is needed at the addresses. */
#define BASE 0x200000000000ULL

static int control;

#define MUST(want, call) must(want, call, #call, __LINE__)

static void must(int want, int got, const char *call, int line)
{
	if (got != want)
		errx(1, "line %d: %s: %s, instead of: %s", line, call, strerrorname_np(got) ?: "0",
		     strerrorname_np(want) ?: "0");
}

/* Exports @pages pages of the BAR @path. */
static int dmabuf_of_bar(const char *path, unsigned int pages)
{
	int bar = open(path, O_RDWR), device = open("/dev/ib_peer_mem", O_RDWR), fd;
	void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, bar, 0);

	if (at == MAP_FAILED)
		err(1, "%s", path);
	fd = export_range(device, at, pages * PAGE);
	if (fd < 0)
		err(1, "export");
	munmap(at, pages * PAGE);
	close(bar);
	close(device);
	return fd;
}

/* Returns a new dma-buf of @pages pages: of the BAR $BAR, or of udmabuf. */
static int dmabuf(unsigned int pages)
{
	int memory, fd;

	if (getenv("BAR"))
		return dmabuf_of_bar(getenv("BAR"), pages);
	memory = memfd_create("named", MFD_ALLOW_SEALING);
	fd = udmabuf_of(memory, pages * PAGE);
	if (fd < 0)
		err(1, "udmabuf");
	close(memory);
	return fd;
}

static int call(unsigned long cmd, struct ib_peer_mem_name *name)
{
	return ioctl(control, cmd, name) ? errno : 0;
}

static struct ib_peer_mem_name pages(uint64_t page, uint64_t n, int fd, uint64_t offset)
{
	return (struct ib_peer_mem_name){
		.version = IB_PEER_MEM_NAME_VERSION,
		.addr = BASE + page * PAGE,
		.length = n * PAGE,
		.offset = offset * PAGE,
		.fd = fd,
	};
}

static int name(uint64_t page, uint64_t n, int fd, uint64_t offset)
{
	struct ib_peer_mem_name arg = pages(page, n, fd, offset);

	return call(IB_PEER_MEM_IOC_NAME, &arg);
}

/* In place of the names that are there. */
static int replace(uint64_t page, uint64_t n, int fd, uint64_t offset)
{
	struct ib_peer_mem_name arg = pages(page, n, fd, offset);

	arg.flags = IB_PEER_MEM_NAME_REPLACE;
	return call(IB_PEER_MEM_IOC_NAME, &arg);
}

static int unname(uint64_t page, uint64_t n)
{
	struct ib_peer_mem_name arg = pages(page, n, 0, 0);

	return call(IB_PEER_MEM_IOC_UNNAME, &arg);
}

static int unname_dmabuf(int fd)
{
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION,
		.flags = IB_PEER_MEM_UNNAME_DMABUF,
		.fd = fd,
	};

	return call(IB_PEER_MEM_IOC_UNNAME, &arg);
}

static int query(uint64_t page)
{
	struct ib_peer_mem_name arg = pages(page, 0, 0, 0);

	return call(IB_PEER_MEM_IOC_QUERY, &arg);
}

/* Each bad argument has its errno, and changes nothing. */
static void test_errors(void)
{
	/* With five levels of page tables. */
	const uint64_t user_end = 1ULL << 56;
	int fd = dmabuf(4), file = open("/dev/null", O_RDWR), path = open("/", O_PATH);
	int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
	struct dma_heap_allocation_data unreadable = { .len = 4 * PAGE, .fd_flags = O_WRONLY | O_CLOEXEC };
	unsigned long cmds[] = { IB_PEER_MEM_IOC_NAME, IB_PEER_MEM_IOC_UNNAME, IB_PEER_MEM_IOC_QUERY };
	struct { uint64_t addr, length, offset; } bad[] = {
		{ BASE, 0, 0 }, { BASE + 1, PAGE, 0 }, { BASE, PAGE + 1, 0 }, { BASE, PAGE, 1 },
		{ BASE, 5 * PAGE, 0 }, { BASE, PAGE, 4 * PAGE }, { BASE, 2 * PAGE, 3 * PAGE },
		{ BASE, PAGE, -PAGE }, { BASE, PAGE, UINT64_MAX }, { -PAGE, PAGE, 0 },
		{ -PAGE, 2 * PAGE, 0 }, { user_end, PAGE, 0 }, { user_end - PAGE, 2 * PAGE, 0 },
		{ 0xffff888000000000, PAGE, 0 }, { BASE, -PAGE, 0 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ib_peer_mem_name arg = pages(0, 1, fd, 0);

		arg.addr = bad[i].addr;
		arg.length = bad[i].length;
		arg.offset = bad[i].offset;
		MUST(EINVAL, call(IB_PEER_MEM_IOC_NAME, &arg));
	}
	for (size_t i = 0; i < 3; i++) {
		struct ib_peer_mem_name arg;

		for (int field = 0; field < 5; field++) {
			arg = pages(0, 1, fd, 0);
			if (field == 0)
				arg.version++;
			else if (field == 1)
				arg.flags = 4;
			else if (field == 2)
				arg.pad = 1;
			else
				arg.reserved[field == 3 ? 0 : 2] = 1ULL << 32;
			MUST(EINVAL, call(cmds[i], &arg));
		}
		MUST(EFAULT, call(cmds[i], NULL));
		MUST(ENOTTY, call(cmds[i] ^ 4 << _IOC_SIZESHIFT, &arg));
	}
	MUST(EBADF, name(0, 1, -1, 0));
	MUST(EBADF, name(0, 1, 999, 0));
	MUST(EBADF, name(0, 1, path, 0));
	/* The debug kernel has no such heap. */
	if (heap >= 0 && !ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &unreadable))
		MUST(EACCES, name(0, 1, unreadable.fd, 0));
	MUST(EINVAL, name(0, 1, file, 0));
	MUST(EBADF, unname_dmabuf(-1));
	MUST(EINVAL, unname_dmabuf(file));
	MUST(ENOENT, unname_dmabuf(fd));
	MUST(ENOENT, unname(0, 1));
	MUST(ENOENT, query(0));

	MUST(0, name(8, 4, fd, 0));
	MUST(EEXIST, name(7, 2, fd, 0));
	MUST(EINVAL, unname(8, 3));
	MUST(0, unname(0, 20));
}

/* A name is returned as it was given, and counts. */
static void test_names(void)
{
	struct ib_peer_mem_name arg;
	int fd = dmabuf(8), other = dmabuf(2);

	MUST(0, name(16, 2, fd, 5));
	MUST(0, name(16, 2, fd, 5));
	MUST(0, name(18, 2, other, 0));
	arg = pages(17, 0, 0, 0);
	arg.addr += 5;
	MUST(0, call(IB_PEER_MEM_IOC_QUERY, &arg));
	if (arg.addr != BASE + 16 * PAGE || arg.length != 2 * PAGE || arg.offset != 5 * PAGE ||
	    arg.fd != fd)
		errx(1, "query: %#llx bytes at %#llx, offset %#llx of %d", arg.length, arg.addr,
		     arg.offset, arg.fd);
	MUST(ENOENT, query(15));
	MUST(ENOENT, query(20));
	close(fd);
	MUST(0, unname(16, 4));
	MUST(0, query(16));
	MUST(ENOENT, query(18));
	MUST(0, unname(16, 2));
	MUST(ENOENT, query(16));
	/* Descriptors that were duplicated are those of one dma-buf. */
	fd = dup(other);
	MUST(0, name(0, 1, fd, 0));
	MUST(0, name(1, 1, other, 1));
	MUST(0, name(0, 1, other, 0));
	MUST(0, unname_dmabuf(fd));
	MUST(0, query(0));
	MUST(ENOENT, query(1));
	MUST(0, unname_dmabuf(other));
	MUST(ENOENT, query(0));
}

/* @argument is the limit, the parameter max_names. */
static void test_limit(unsigned int limit)
{
	int fd = dmabuf(1);

	for (unsigned int i = 0; i < limit; i++)
		MUST(0, name(i, 1, fd, 0));
	MUST(ENOSPC, name(limit, 1, fd, 0));
	/* Another process has names of its own. */
	if (!fork()) {
		MUST(0, name(limit + 1, 1, fd, 0));
		_exit(0);
	}
	int status;

	wait(&status);
	MUST(0, status);
}

static void *name_in_thread(void *fd)
{
	MUST(0, name(4, 1, *(int *)fd, 0));
	return NULL;
}

/* Threads share names, vfork(2) too; a fork has none, and does not remove its parent's. */
static void test_fork(void)
{
	int fd = dmabuf(4), status;
	pthread_t thread;
	pid_t pid;

	MUST(0, name(0, 4, fd, 0));
	if (pthread_create(&thread, NULL, name_in_thread, &fd) || pthread_join(thread, NULL))
		errx(1, "pthread_create");
	MUST(0, query(4));
	pid = fork();
	if (!pid) {
		MUST(ENOENT, query(0));
		MUST(ENOENT, unname_dmabuf(fd));
		MUST(0, name(1, 2, fd, 0));
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "the child: %#x", status);
	MUST(0, query(0));
	pid = vfork();
	if (!pid)
		_exit(query(0));
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "the child of vfork: %#x", status);
	MUST(0, unname(0, 5));
}

static volatile bool replacing = true;

static void *replace_all_the_time(void *fd)
{
	while (replacing)
		MUST(0, replace(40, 2, *(int *)fd, 0));
	return NULL;
}

static void test_replace(void)
{
	int fd = dmabuf(2);
	pthread_t thread;

	/* There is no moment without a name, in the time of many switches between the threads. */
	MUST(0, name(40, 2, fd, 0));
	pthread_create(&thread, NULL, replace_all_the_time, &fd);
	for (time_t end = time(NULL) + 4; time(NULL) < end; )
		MUST(0, query(40));
	replacing = false;
	pthread_join(thread, NULL);
	MUST(0, unname(40, 2));
}

/* The protocol of /dev/dmabuf_reg. */
enum { ADD, REMOVE_ADDR, REMOVE_FD, QUERY };

struct request {
	uint64_t base, size;
	uint32_t fd, op;
};

static int reg(int op, uint64_t page, uint64_t n, int fd, struct request *answer)
{
	struct request request = { BASE + page * PAGE, n * PAGE, fd, op };
	int error = ioctl(control, 1, &request) ? errno : 0;

	if (answer)
		*answer = request;
	return error;
}

static void test_dmabuf_reg(void)
{
	struct request got;
	int fd = dmabuf(8), other = dmabuf(8), closed;

	MUST(ENOTTY, ioctl(control, 5, &got) ? errno : 0);
	MUST(EFAULT, ioctl(control, 1, NULL) ? errno : 0);
	MUST(EINVAL, reg(4, 0, 8, fd, NULL));
	MUST(EINVAL, reg(ADD, 0, 0, fd, NULL));
	MUST(EINVAL, reg(ADD, 0, 9, fd, NULL));
	MUST(EBADF, reg(ADD, 0, 8, -1, NULL));
	MUST(ENOENT, reg(QUERY, 0, 8, 0, NULL));
	MUST(EINVAL, reg(REMOVE_ADDR, 0, 0, 0, NULL));
	MUST(EINVAL, reg(REMOVE_FD, 0, 0, fd, NULL));

	/* As the provider does: the second registration queries first. */
	MUST(0, reg(ADD, 0, 8, fd, NULL));
	MUST(0, reg(QUERY, 0, 8, 0, &got));
	MUST(0, reg(ADD, 0, 8, got.fd, NULL));
	MUST(EINVAL, reg(ADD, 7, 2, other, NULL));
	MUST(0, reg(ADD, 8, 8, other, NULL));
	MUST(0, reg(QUERY, 3, 2, 0, &got));
	if (got.base != BASE || got.size != 8 * PAGE || got.fd != (uint32_t)fd || got.op != QUERY)
		errx(1, "query: %#lx bytes at %#lx, %u", got.size, got.base, got.fd);
	MUST(EINVAL, reg(QUERY, 7, 2, 0, NULL));
	MUST(EINVAL, reg(QUERY, 15, 2, 0, NULL));
	MUST(ENOENT, reg(QUERY, 16, 1, 0, NULL));
	MUST(0, reg(REMOVE_FD, 0, 0, fd, NULL));
	MUST(0, reg(QUERY, 0, 8, 0, NULL));
	/* The number is the key, also once it is closed. */
	closed = fd;
	close(fd);
	MUST(0, reg(REMOVE_FD, 0, 0, closed, NULL));
	MUST(EINVAL, reg(REMOVE_FD, 0, 0, closed, NULL));
	MUST(ENOENT, reg(QUERY, 0, 8, 0, NULL));
	MUST(0, reg(REMOVE_ADDR, 12, 0, 0, NULL));
	MUST(ENOENT, reg(QUERY, 8, 8, 0, NULL));

	/* The names are those of /dev/ib_peer_mem. */
	MUST(0, reg(ADD, 0, 8, other, NULL));
	control = open("/dev/ib_peer_mem", O_RDWR);
	MUST(0, query(7));
	MUST(0, unname_dmabuf(other));
}

static void hold(const char *how)
{
	int fds[2] = { dmabuf(PAGES), dmabuf(PAGES) };
	char byte;

	MUST(0, name(0, PAGES, fds[0], 0));
	MUST(0, name(PAGES, PAGES, fds[1], 0));
	close(fds[0]);
	close(fds[1]);
	if (!strcmp(how, "closed"))
		close(control);
	if (!strcmp(how, "child")) {
		pid_t child = fork();

		if (!child)
			execl("/bin/sleep", "sleep", "1000", NULL);
		printf("child %d\n", child);
	}
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		err(1, "read");
	if (!strcmp(how, "exec"))
		execl("/bin/sleep", "sleep", "1000", NULL);
}

int main(int argc, char **argv)
{
	bool protocol = argc > 1 && !strcmp(argv[1], "-r");
	const char *test = argc > 1 + protocol ? argv[1 + protocol] : "";
	const char *argument = argc > 2 + protocol ? argv[2 + protocol] : "";

	/* Not closed on exec. */
	control = open(protocol ? "/dev/dmabuf_reg" : "/dev/ib_peer_mem", O_RDWR);
	if (control < 0)
		err(1, "the device");
	if (!strcmp(test, "errors"))
		test_errors();
	else if (!strcmp(test, "names"))
		test_names();
	else if (!strcmp(test, "limit"))
		test_limit(atoi(argument));
	else if (!strcmp(test, "fork"))
		test_fork();
	else if (!strcmp(test, "replace"))
		test_replace();
	else if (!strcmp(test, "dmabuf_reg"))
		test_dmabuf_reg();
	else if (!strcmp(test, "hold"))
		hold(argument);
	else
		errx(2, "usage: named [-r] TEST");
	return 0;
}
