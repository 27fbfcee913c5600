// SPDX-License-Identifier: GPL-2.0

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/udmabuf.h>

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

int udmabuf_of(int memfd, size_t size)
{
	struct udmabuf_create create = { .memfd = memfd, .size = size };
	int device, fd;

	if (memfd < 0 || ftruncate(memfd, size) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0) {
		errno = ENODEV;
		return -1;
	}
	fd = ioctl(device, UDMABUF_CREATE, &create);
	close_quietly(device);
	return fd;
}

int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}
