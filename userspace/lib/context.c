// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The BAR's character device. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <io_peer_mem.h>
#include <iopm.h>

static int capacity(int fd, struct io_peer_mem_dm_capacity *c)
{
	*c = (struct io_peer_mem_dm_capacity){ .version = IO_PEER_MEM_DM_VERSION };
	return ioctl(fd, IO_PEER_MEM_IOC_DM_CAPACITY, c) ? errno : 0;
}

struct iopm_context *iopm_open_device(const char *path)
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

int iopm_query_device_ex(struct iopm_context *context,
			 const struct iopm_query_device_ex_input *input,
			 struct iopm_device_attr_ex *attr)
{
	struct io_peer_mem_dm_capacity c;
	int error;

	if (input && input->comp_mask)
		return EINVAL;
	error = capacity(context->cmd_fd, &c);
	if (error)
		return error;
	*attr = (struct iopm_device_attr_ex){
		.max_dm_size = c.total,
		.free_dm_size = c.free,
		.largest_dm_size = c.largest,
		.dm_page_size = c.page_size,
	};
	return 0;
}
