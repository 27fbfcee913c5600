// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "common.h"

void close_quietly(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}

int export_range(int control, const void *addr, size_t length)
{
	struct ib_peer_mem_export export = {
		.version = IB_PEER_MEM_EXPORT_VERSION,
		.addr = (uintptr_t)addr,
		.length = length,
	};

	return ioctl(control, IB_PEER_MEM_IOC_EXPORT, &export) ? -1 : export.fd;
}
