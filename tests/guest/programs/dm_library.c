// SPDX-License-Identifier: GPL-2.0
/* The list of BARs, queries, structures of other versions, and exports as dma-bufs. */
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dm.h"

/* The BAR is in the list once, with its name and address, and can be opened. */
void test_list(struct iopm_context *bar)
{
	int count = -1, found = 0;
	struct iopm_device **list = iopm_get_device_list(&count);
	struct iopm_pci_address address;
	struct iopm_context *context;
	unsigned int bus, slot, function;

	(void)bar;
	expect_true("a list", list && count > 0 && !list[count]);
	for (int i = 0; i < count; i++) {
		const char *name = iopm_get_device_name(list[i]);

		printf("%s\n", name);
		expect_true("the name ends the path", !strcmp(name, iopm_get_device_path(list[i]) +
							      strlen("/dev/io_peer_mem/")));
		expect_errno("address", iopm_get_device_address(list[i], &address), 0);
		expect_true("sorted", !i || strcmp(iopm_get_device_name(list[i - 1]), name) < 0);
		if (strcmp(iopm_get_device_path(list[i]), dm_path))
			continue;
		found++;
		expect_true("its address", sscanf(name, "%*x:%x:%x.%x", &bus, &slot, &function) == 3 &&
			    address.bdf == (bus << 8 | slot << 3 | function));
		context = iopm_open_device(list[i]);
		expect_true("it opens", context);
		iopm_close_device(context);
	}
	expect_u64("times in the list", found, 1);
	iopm_free_device_list(list);
	expect_true("the version", !strcmp(iopm_version(), IOPM_VERSION) &&
		    IOPM_VERSION_NUMBER >= IOPM_MAKE_VERSION(1, 0, 0));
}

/* A caller of an earlier or a later version passes a smaller or a larger structure. */
static void sizes(struct iopm_context *bar)
{
	struct {
		struct iopm_device_attr_ex attr;
		uint64_t later[4];
	} large;
	struct iopm_device_attr_ex attr;

	memset(&large, 0xff, sizeof(large));
	expect_errno("a later structure", _iopm_query_device_ex(bar, NULL, &large.attr,
								 sizeof(large)), 0);
	for (int i = 0; i < 4; i++)
		expect_u64("an unknown member", large.later[i], 0);
	expect_errno("query", iopm_query_device_ex(bar, NULL, &attr), 0);
	expect_true("the same", !memcmp(&attr, &large.attr, sizeof(attr)));
	memset(&attr, 0x5a, sizeof(attr));
	expect_errno("less than version 1.0", _iopm_query_device_ex(bar, NULL, &attr,
								     sizeof(attr) - 8), EINVAL);
	expect_u64("untouched", attr.max_dm_size, 0x5a5a5a5a5a5a5a5a);
}

void test_query(struct iopm_context *bar)
{
	struct iopm_pci_address none = { .domain = 0, .bdf = 0xfeff };
	struct iopm_dm *dm = dm_alloc(bar, PAGE + 904, 16);
	struct iopm_nearest nearest;
	struct iopm_dm_attr attr;
	struct iopm_range range;
	char *map, byte = 0;

	sizes(bar);
	expect_errno("query of an allocation", iopm_query_dm(dm, &attr), 0);
	expect_u64("length", attr.length, PAGE + 904);
	expect_u64("size", attr.size, 2 * PAGE);
	expect_u64("alignment", attr.bar_offset % 65536, 0);
	expect_u64("BAR", attr.bar, 2);
	expect_u64("prefetchable", attr.comp_mask, IOPM_DM_ATTR_MMAP_WC);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, (int)dm->handle,
		   (off_t)(attr.mmap_wc + PAGE));
	expect_true("a mapping that combines writes", map != MAP_FAILED);
	map[9] = 8;
	__sync_synchronize();
	expect_errno("its byte", iopm_memcpy_from_dm(&byte, dm, PAGE + 9, 1), 0);
	expect_u64("its byte", (uint64_t)byte, 8);
	munmap(map, PAGE);
	/* A program of version 1.0. */
	memset(&attr, 0x5a, sizeof(attr));
	expect_errno("a smaller structure",
		     _iopm_query_dm(dm, &attr, offsetof(struct iopm_dm_attr, mmap_wc)), 0);
	expect_true("without that member", !attr.comp_mask && attr.mmap_wc == 0x5a5a5a5a5a5a5a5a);
	expect_errno("not an allocation", iopm_query_dm(&(struct iopm_dm){ .handle = bar->cmd_fd },
							 &attr), ENOTTY);

	map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, (int)dm->handle, 0);
	expect_true("mmap", map != MAP_FAILED);
	expect_errno("range", iopm_query_range(bar, map + PAGE + 1, &range), 0);
	expect_u64("its offset", range.bar_offset, attr.bar_offset + PAGE + 1);
	expect_u64("its length", range.length, PAGE - 1);
	munmap(map, 2 * PAGE);
	expect_errno("range of host memory", iopm_query_range(bar, &attr, &range), EFAULT);

	expect_errno("nearest to itself", iopm_query_nearest(bar, &attr.function, &nearest), 0);
	expect_true("both results", nearest.comp_mask == (IOPM_NEAREST_DISTANCE |
							   IOPM_NEAREST_PROVIDER));
	expect_true("it is itself", !nearest.distance && !nearest.provider_distance &&
		    nearest.provider.bdf == attr.function.bdf);
	expect_errno("nearest to nothing", iopm_query_nearest(bar, &none, &nearest), ENXIO);
	dm_free(dm);
}

static int export_errno(struct iopm_dm *dm, uint64_t offset, size_t length)
{
	int fd = iopm_export_dmabuf(dm, offset, length);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* The memory is in use until the dma-buf is closed. */
void test_dmabuf(struct iopm_context *bar)
{
	struct iopm_dm *dm = dm_alloc(bar, LENGTH, 0);
	char link[64], target[PATH_MAX] = "";
	int fd = iopm_export_dmabuf(dm, PAGE, LENGTH - PAGE), status;
	const struct {
		size_t offset, length;
		int error;
	} ranges[] = {
		{ 0, LENGTH, 0 }, { PAGE, PAGE, 0 }, { 0, 0, EINVAL }, { 8, PAGE, EINVAL }, { 0, 100, EINVAL },
		{ 2 * PAGE, PAGE, EINVAL }, { PAGE, SIZE_MAX, EINVAL },
	};
	pid_t child;

	if (fd < 0)
		err(1, "iopm_export_dmabuf");
	expect_true("close on exec", fcntl(fd, F_GETFD) & FD_CLOEXEC);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	expect_true("a dma-buf", readlink(link, target, sizeof(target) - 1) > 0 &&
		    strstr(target, "dmabuf"));
	expect_u64("whole pages", (uint64_t)lseek(fd, 0, SEEK_END), 2 * PAGE);
	expect_errno("free under a dma-buf", iopm_free_dm(dm), EBUSY);
	close(fd);

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		printf("%#zx bytes at %#zx: ", ranges[i].length, ranges[i].offset);
		expect_errno("export", export_errno(dm, ranges[i].offset, ranges[i].length), ranges[i].error);
	}
	/* A child has not the mapping of the library. */
	child = fork();
	if (!child)
		_exit(!export_errno(dm, 0, PAGE));
	expect_true("in a child", waitpid(child, &status, 0) == child && !status);
	expect_errno("free", iopm_free_dm(dm), 0);
}
