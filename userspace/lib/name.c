// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory that is a part of a dma-buf: its names. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ib_peer_mem.h>
#include <iopm.h>

/* Returns an errno. */
static int call(unsigned long request, struct ib_peer_mem_name *arg)
{
	int control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC), error;

	if (control < 0)
		return errno;
	do
		error = ioctl(control, request, arg) ? errno : 0;
	while (error == EINTR);
	close(control);
	return error;
}

int iopm_register_dmabuf(const void *addr, size_t length, int fd, uint64_t offset)
{
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION,
		.addr = (uintptr_t)addr,
		.length = length,
		.offset = offset,
		.fd = fd,
	};

	return call(IB_PEER_MEM_IOC_NAME, &arg);
}

int iopm_unregister_dmabuf(const void *addr, size_t length)
{
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION,
		.addr = (uintptr_t)addr,
		.length = length,
	};

	return call(IB_PEER_MEM_IOC_UNNAME, &arg);
}
