// SPDX-License-Identifier: GPL-2.0
/* What goes on while the scan of a DM_FREE is held by hold_call_test.ko. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dm.h"

#define PARAMETERS "/sys/module/hold_call_test/parameters/"
#define SECONDS 10

static void set(const char *path, char value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, &value, 1) != 1)
		err(1, "%s", path);
	close(fd);
}

static bool is_held(void)
{
	int fd = open(PARAMETERS "held", O_RDONLY);
	char value = 0;

	if (fd < 0 || read(fd, &value, 1) != 1)
		err(1, PARAMETERS "held");
	close(fd);
	return value == '1';
}

static void *free_it(void *dm)
{
	return (void *)(intptr_t)iopm_free_dm(dm);
}

/* Other users of the BAR. */
static void others(struct iopm_context *bar, volatile char *first_access, struct iopm_dm *dm)
{
	struct iopm_device_attr_ex attr;
	volatile char *map;
	char byte;

	*first_access = 1;
	expect_errno("copy", iopm_memcpy_from_dm(&byte, dm, 0, 1), 0);
	expect_errno("query", iopm_query_device_ex(bar, NULL, &attr), 0);
	dm_free(dm_alloc(bar, 100000, 0));
	map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, bar->cmd_fd, 0);
	expect_true("map", map != MAP_FAILED);
	*map = 1;
	munmap((void *)map, 2 * PAGE);
}

static bool ends_in_time(pid_t child)
{
	int status = -1;

	for (int i = 0; i < 100 * SECONDS; i++) {
		if (waitpid(child, &status, WNOHANG) == child)
			return status == 0;
		usleep(10000);
	}
	return false;
}

/* A scan holds the lock of its allocation alone. */
void test_scan(struct iopm_context *bar)
{
	struct iopm_dm *scanned = dm_alloc(bar, 1 << 20, 0), *other = dm_alloc(bar, PAGE, 0);
	char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, (int)other->handle, 0);
	pthread_t thread;
	void *error;
	pid_t child;
	bool ended;

	expect_true("map", map != MAP_FAILED);
	set(PARAMETERS "armed", '1');
	if (pthread_create(&thread, NULL, free_it, scanned))
		errx(1, "pthread_create");
	for (int i = 0; !is_held(); i++) {
		expect_true("the scan is reached", i < 100 * SECONDS);
		usleep(10000);
	}
	child = fork();
	if (!child) {
		others(bar, map, other);
		_exit(0);
	}
	ended = ends_in_time(child);
	expect_true("the scan is still held", is_held());
	set(PARAMETERS "held", '0');
	pthread_join(thread, &error);
	expect_errno("free", (int)(intptr_t)error, 0);
	expect_true("other users do not wait for the scan", ended);
	munmap(map, PAGE);
	dm_free(other);
}
