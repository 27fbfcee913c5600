// SPDX-License-Identifier: GPL-2.0
/*
 * The copies of libiopm, on a file in memory that stands for an allocation: bounds, and the end of the file;
 * the way it frees; and arguments of programs that err. This program's ioctl() is called instead of that of
 * the C library.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <io_peer_mem.h>
#include <iopm.h>

#define LENGTH 10000

static int free_fails;			/* the errno of DM_FREE */
static int frees;

int ioctl(int fd, unsigned long request, ...)
{
	struct io_peer_mem_dm_info *info;
	va_list arguments;

	va_start(arguments, request);
	info = va_arg(arguments, void *);
	va_end(arguments);
	if (fcntl(fd, F_GETFD) < 0)
		return -1;
	switch (request) {
	case IO_PEER_MEM_IOC_DM_INFO:
		info->length = LENGTH;
		info->size = 3 * 4096;
		return 0;
	case IO_PEER_MEM_IOC_DM_FREE:
		frees++;
		errno = free_fails;
		return errno ? -1 : 0;
	}
	errno = ENOTTY;
	return -1;
}

static void expect(const char *what, int got, int want)
{
	if (got != want)
		errx(1, "%s: %s, instead of %s", what, strerrorname_np(got) ?: "0",
		     strerrorname_np(want) ?: "0");
}

static void expect_true(const char *what, bool ok)
{
	if (!ok)
		errx(1, "false: %s", what);
}

static struct iopm_dm *import(int fd)
{
	struct iopm_dm *dm = iopm_import_dm(NULL, (uint32_t)fd);

	if (!dm)
		err(1, "iopm_import_dm");
	return dm;
}

/* Returns the beginning of the line of /proc/self/maps that has @text, or NULL. */
static char *mapped_at(const char *text)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long at = 0;
	char line[512];

	while (maps && !at && fgets(line, sizeof(line), maps))
		if (strstr(line, text))
			at = strtoul(line, NULL, 16);
	fclose(maps);
	return (char *)at;
}

/* Calls @then in a child that is process 1 of a namespace. */
static void as_first_process(void (*then)(int fd, char *at), int fd, char *at)
{
	int status;
	pid_t child;

	expect_true("a namespace", !unshare(CLONE_NEWPID));
	child = fork();
	if (!child) {
		expect_true("its number", getpid() == 1);
		then(fd, at);
		exit(0);
	}
	expect_true("its end", waitpid(child, &status, 0) == child && !status);
}

/* The child has memory of its own where its parent has the library's mapping. */
static struct iopm_dm *of_parent;
static void child(int fd, char *at)
{
	(void)fd;
	expect_true("the address is free", mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
						MAP_FIXED_NOREPLACE, -1, 0) == at);
	*at = 1;
	iopm_unimport_dm(of_parent);
	expect_true("the child's memory", *(volatile char *)at == 1);
}
static void parent(int fd, char *at)
{
	(void)at;
	of_parent = import(fd);
	as_first_process(child, fd, mapped_at("/memfd:memory"));
}

/* What is no handle, no address and no library has an errno, as every failure. */
static void wrong_arguments(int fd)
{
	const unsigned int zero_based = 1 << 5;
	struct iopm_dm *dm = import(fd);
	struct rlimit limit, none = { 0 };
	struct iopm_dm_attr attr;
	char byte;

	expect("no handle", iopm_query_dm(&(struct iopm_dm){ .handle = -1 }, &attr), EBADF);
	expect_true("no handle", !iopm_import_dm(NULL, -1) && errno == EBADF);
	expect_true("no path", !iopm_open_path(NULL) && errno == EFAULT);
	expect("no memory", iopm_memcpy_to_dm(dm, 0, NULL, 8), EFAULT);
	expect("no memory", iopm_memcpy_from_dm(NULL, dm, 0, 8), EFAULT);
	expect("no bytes", iopm_memcpy_from_dm(NULL, dm, 0, 0), 0);
	expect("a byte", iopm_memcpy_from_dm(&byte, dm, 0, 1), 0);
	/* A second libibverbs would not know the protection domain of the first. */
	expect_true("no libibverbs", !iopm_reg_dm_mr((struct ibv_pd *)&byte, dm, 0, 4096, zero_based) &&
		    errno == ENOSYS && !mapped_at("libibverbs"));
	/* The mapping ends without a free descriptor as well. */
	expect_true("limit", !getrlimit(RLIMIT_NOFILE, &limit));
	none.rlim_max = limit.rlim_max;
	expect_true("limit", !setrlimit(RLIMIT_NOFILE, &none));
	iopm_unimport_dm(dm);
	expect_true("limit", !setrlimit(RLIMIT_NOFILE, &limit));
	expect_true("unmapped", !mapped_at("/memfd:memory"));
}

int main(void)
{
	static char in[LENGTH], out[LENGTH];
	struct sigaction action = { 0 };
	int fd = memfd_create("memory", MFD_CLOEXEC);
	struct iopm_dm *dm;

	/* A copy that does not end is a failure. */
	alarm(60);
	if (fd < 0 || ftruncate(fd, 3 * 4096))
		err(1, "memfd_create");
	wrong_arguments(fd);
	as_first_process(parent, fd, NULL);
	dm = import(fd);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7 + i / 251);

	expect("write", iopm_memcpy_to_dm(dm, 0, in, LENGTH), 0);
	expect("read", iopm_memcpy_from_dm(out, dm, 0, LENGTH), 0);
	expect_true("the bytes", !memcmp(in, out, LENGTH));
	expect("write", iopm_memcpy_to_dm(dm, 1000, in, 5000), 0);
	expect("read", iopm_memcpy_from_dm(out, dm, 1000, 5000), 0);
	expect_true("at an offset", !memcmp(in, out, 5000));
	expect_true("and not beyond", !memcmp(in + 6000, out + 6000, LENGTH - 6000));

	/* The bounds: the file is longer. */
	expect("nothing, at the end", iopm_memcpy_to_dm(dm, LENGTH, in, 0), 0);
	expect("past the end", iopm_memcpy_to_dm(dm, LENGTH - 9, in, 10), EINVAL);
	expect("wraps", iopm_memcpy_from_dm(out, dm, UINT64_MAX, 2), EINVAL);
	expect("all addresses", iopm_memcpy_from_dm(out, dm, 1, SIZE_MAX), EINVAL);
	expect("no pointer", iopm_memcpy_to_dm(dm, 0, (void *)8, 8), EFAULT);
	/* A file that has no more bytes must not be read for ever. */
	expect_true("truncated", !ftruncate(fd, 100));
	expect("no bytes", iopm_memcpy_from_dm(out, dm, 0, 101), EIO);

	/* A failed free changes nothing; a removed device has freed the memory. */
	free_fails = EBUSY;
	expect("in use", iopm_free_dm(dm), EBUSY);
	expect("still there", iopm_memcpy_from_dm(out, dm, 0, 100), 0);
	free_fails = ENODEV;
	expect("gone", iopm_free_dm(dm), 0);
	free_fails = 0;
	dm = import(fd);
	expect("free", iopm_free_dm(dm), 0);
	expect_true("calls of DM_FREE", frees == 3);
	dm = import(fd);
	iopm_unimport_dm(dm);
	expect_true("no call of DM_FREE", frees == 3);

	/* The signals are the program's. */
	expect_true("SIGBUS", !sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_DFL);
	return 0;
}
