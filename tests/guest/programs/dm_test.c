// SPDX-License-Identifier: GPL-2.0
/*
 * dm_test TEST BAR RDMA-DEVICE GID-INDEX: one test of device memory, through libiopm or by its
 * ioctls. BAR has 64 MiB and no other user.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "dm.h"

#define ENTRY(name) { #name, test_##name },

static const struct {
	const char *name;
	void (*test)(struct iopm_context *bar);
} tests[] = { DM_TESTS(ENTRY) };

const char *dm_path;
static const char *device;
static int gid_index;

struct rdma dm_rdma(void)
{
	struct rdma r = rdma_open(device);

	r.gid_index = gid_index;
	return r;
}

void expect_errno(const char *what, int got, int want)
{
	printf("%s: %s\n", what, got ? strerrorname_np(got) : "ok");
	if (got != want)
		errx(1, "%s: %s was expected", what, want ? strerrorname_np(want) : "ok");
}

void expect_u64(const char *what, uint64_t got, uint64_t want)
{
	printf("%s: %#llx\n", what, (unsigned long long)got);
	if (got != want)
		errx(1, "%s: %#llx was expected", what, (unsigned long long)want);
}

void expect_true(const char *what, bool ok)
{
	if (!ok)
		errx(1, "false: %s", what);
}

int raw_try_alloc(int bar, uint64_t length, uint32_t flags)
{
	struct io_peer_mem_dm_alloc a = {
		.version = IO_PEER_MEM_DM_VERSION,
		.flags = flags,
		.length = length,
	};

	return ioctl(bar, IO_PEER_MEM_IOC_DM_ALLOC, &a) ? -1 : a.fd;
}

int raw_alloc(int bar, uint64_t length, uint32_t flags)
{
	int fd = raw_try_alloc(bar, length, flags);

	if (fd < 0)
		err(1, "allocation of %#llx bytes", (unsigned long long)length);
	return fd;
}

struct iopm_dm *dm_alloc(struct iopm_context *bar, size_t length, uint32_t log_align)
{
	struct iopm_alloc_dm_attr attr = { .length = length, .log_align_req = log_align };
	struct iopm_dm *dm = iopm_alloc_dm(bar, &attr);

	if (!dm)
		err(1, "iopm_alloc_dm of %zu bytes", length);
	return dm;
}

int dm_alloc_errno(struct iopm_context *bar, size_t length, uint32_t log_align,
		   uint32_t comp_mask)
{
	struct iopm_alloc_dm_attr attr = {
		.length = length,
		.log_align_req = log_align,
		.comp_mask = comp_mask,
	};

	return iopm_alloc_dm(bar, &attr) ? 0 : errno;
}

void dm_free(struct iopm_dm *dm)
{
	if ((errno = iopm_free_dm(dm)))
		err(1, "iopm_free_dm");
}

uint64_t dm_room(struct iopm_context *bar)
{
	struct iopm_device_attr_ex attr;

	if ((errno = iopm_query_device_ex(bar, NULL, &attr)))
		err(1, "iopm_query_device_ex");
	expect_true("largest <= free <= max", attr.largest_dm_size <= attr.free_dm_size &&
		    attr.free_dm_size <= attr.max_dm_size);
	return attr.free_dm_size;
}

int main(int argc, char **argv)
{
	struct iopm_context *bar;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5)
		errx(2, "usage: dm_test TEST BAR RDMA-DEVICE GID-INDEX");
	device = argv[3];
	gid_index = atoi(argv[4]);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(tests[i].name, argv[1]))
			continue;
		dm_path = argv[2];
		bar = iopm_open_path(dm_path);
		if (!bar)
			err(1, "%s", dm_path);
		tests[i].test(bar);
		iopm_close_device(bar);
		printf("%s: done\n", argv[1]);
		return 0;
	}
	errx(2, "no such test: %s", argv[1]);
}
