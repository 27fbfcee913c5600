// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The BAR's character device. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <io_peer_mem.h>

#include "fill.h"

const char *iopm_version(void)
{
	return IOPM_VERSION;
}

static int capacity(int fd, struct io_peer_mem_dm_capacity *c)
{
	*c = (struct io_peer_mem_dm_capacity){ .version = IO_PEER_MEM_DM_VERSION };
	return ioctl(fd, IO_PEER_MEM_IOC_DM_CAPACITY, c) ? errno : 0;
}

struct iopm_context *iopm_open_path(const char *path)
{
	struct iopm_context *context = malloc(sizeof(*context));
	struct io_peer_mem_dm_capacity c;
	int error;

	if (!context)
		return NULL;
	context->cmd_fd = open(path, O_RDWR | O_CLOEXEC);
	if (context->cmd_fd < 0) {
		error = errno;
		goto out_free;
	}
	/* Fails if the file is not a BAR, or its driver lacks these ioctls. */
	error = capacity(context->cmd_fd, &c);
	if (!error)
		return context;
	close(context->cmd_fd);
out_free:
	free(context);
	errno = error;
	return NULL;
}

int iopm_close_device(struct iopm_context *context)
{
	close(context->cmd_fd);
	free(context);
	return 0;
}

int _iopm_query_device_ex(struct iopm_context *context,
			  const struct iopm_query_device_ex_input *input,
			  struct iopm_device_attr_ex *attr, size_t attr_size)
{
	struct iopm_device_attr_ex all = { 0 };
	struct io_peer_mem_dm_capacity c;
	int error;

	if (input && input->comp_mask)
		return EINVAL;
	error = capacity(context->cmd_fd, &c);
	if (error)
		return error;
	all.max_dm_size = c.total;
	all.free_dm_size = c.free;
	all.largest_dm_size = c.largest;
	all.dm_page_size = c.page_size;
	return fill(attr, attr_size, &all, sizeof(all),
		    end_of(struct iopm_device_attr_ex, dm_page_size));
}

int _iopm_query_nearest(struct iopm_context *context, const struct iopm_pci_address *device,
			struct iopm_nearest *nearest, size_t nearest_size)
{
	struct io_peer_mem_nearest arg = {
		.version = IO_PEER_MEM_NEAREST_VERSION,
		.domain = device->domain,
		.address = device->bdf,
	};
	struct iopm_nearest all = { 0 };

	if (ioctl(context->cmd_fd, IO_PEER_MEM_IOC_NEAREST, &arg))
		return errno;
	if (arg.flags & IO_PEER_MEM_NEAREST_HERE) {
		all.comp_mask |= IOPM_NEAREST_DISTANCE;
		all.distance = arg.distance;
	}
	if (arg.flags & IO_PEER_MEM_NEAREST_FOUND) {
		all.comp_mask |= IOPM_NEAREST_PROVIDER;
		all.provider_distance = arg.provider_distance;
		all.provider.domain = arg.provider_domain;
		all.provider.bdf = arg.provider_address;
	}
	return fill(nearest, nearest_size, &all, sizeof(all),
		    end_of(struct iopm_nearest, provider));
}

int _iopm_query_range(struct iopm_context *context, const void *addr,
		      struct iopm_range *range, size_t range_size)
{
	struct io_peer_mem_range arg = { .addr = (uintptr_t)addr };
	struct iopm_range all = { 0 };

	if (ioctl(context->cmd_fd, IO_PEER_MEM_IOC_RANGE, &arg))
		return errno;
	all.bar_offset = arg.bar_offset;
	all.length = arg.length;
	return fill(range, range_size, &all, sizeof(all), end_of(struct iopm_range, length));
}
