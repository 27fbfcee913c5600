// SPDX-License-Identifier: GPL-2.0
/*
 * recorder.so - stands for /dev/ib_peer_mem in one process, for LD_PRELOAD after libiopm-gpu.so
 *
 * Keeps the names as the kernel does, and prints to the file $GPU_RECORD: "name ADDR LENGTH NUMBER OFFSET"
 * with the number of the dma-buf, "unname ADDR LENGTH", and at the end "left ADDR LENGTH" for each name and
 * "end".
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#define NAMES 65536

static struct { uint64_t start, end; } names[NAMES];
static size_t n_names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void record(const char *format, ...)
{
	const char *path = getenv("GPU_RECORD");
	char line[128];
	va_list args;
	int fd, n;

	if (!path)
		return;
	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (write(fd, line, n) != n)
		abort();
	close(fd);
}

static void add(uint64_t start, uint64_t end)
{
	if (start < end && n_names < NAMES) {
		names[n_names].start = start;
		names[n_names++].end = end;
	}
}

/* Takes the range out of all names. */
static bool cut(uint64_t start, uint64_t end)
{
	bool found = false;

	for (size_t i = 0; i < n_names; i++) {
		uint64_t from = names[i].start, to = names[i].end;

		if (to <= start || end <= from)
			continue;
		found = true;
		names[i--] = names[--n_names];
		add(from, start < from ? from : start);
		add(end > to ? to : end, to);
	}
	return found;
}

static int answer(unsigned long request, struct ib_peer_mem_name *arg)
{
	uint64_t end = arg->addr + arg->length;
	struct stat st;

	if (arg->version != IB_PEER_MEM_NAME_VERSION || (arg->addr | arg->length | arg->offset) % 4096)
		return EINVAL;
	switch (request) {
	case IB_PEER_MEM_IOC_NAME:
		if (fstat(arg->fd, &st))
			return EBADF;
		for (size_t i = 0; !(arg->flags & IB_PEER_MEM_NAME_REPLACE) && i < n_names; i++)
			if (names[i].start < end && arg->addr < names[i].end)
				return EEXIST;
		cut(arg->addr, end);
		add(arg->addr, end);
		record("name %#llx %llu %llu %llu\n", arg->addr, arg->length, (unsigned long long)st.st_ino, arg->offset);
		return 0;
	case IB_PEER_MEM_IOC_UNNAME:
		for (size_t i = 0; i < n_names; i++)
			if (names[i].start < end && arg->addr < names[i].end &&
			    (names[i].start < arg->addr || end < names[i].end))
				return EINVAL;
		if (!cut(arg->addr, end))
			return ENOENT;
		record("unname %#llx %llu\n", arg->addr, arg->length);
		return 0;
	case IB_PEER_MEM_IOC_QUERY:
		for (size_t i = 0; i < n_names; i++)
			if (names[i].start <= arg->addr && arg->addr < names[i].end) {
				arg->addr = names[i].start;
				arg->length = names[i].end - names[i].start;
				return 0;
			}
		return ENOENT;
	}
	return ENOTTY;
}

static bool is_device(const char *path)
{
	return path && !strcmp(path, "/dev/ib_peer_mem");
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (is_device(path))
		return syscall(SYS_openat, AT_FDCWD, "/dev/null", flags);
	return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int access(const char *path, int mode)
{
	return is_device(path) ? 0 : syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (_IOC_TYPE(request) != IB_PEER_MEM_IOC_MAGIC)
		return syscall(SYS_ioctl, fd, request, arg);
	pthread_mutex_lock(&lock);
	errno = answer(request, arg);
	pthread_mutex_unlock(&lock);
	return errno ? -1 : 0;
}

static void __attribute__((destructor)) end(void)
{
	for (size_t i = 0; i < n_names; i++)
		record("left %#llx %llu\n", (unsigned long long)names[i].start,
		       (unsigned long long)(names[i].end - names[i].start));
	record("end\n");
}
