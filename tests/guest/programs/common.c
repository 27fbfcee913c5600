// SPDX-License-Identifier: GPL-2.0

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

int fd_send(int socket, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(fd))];
	} control = { .header = {
		.cmsg_len = CMSG_LEN(sizeof(fd)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	} };
	struct iovec one = { .iov_base = "", .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : errno;
}

int fd_receive(int socket, int flags)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec one = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

int ioctl32(int fd, unsigned long cmd, void *arg)
{
#ifdef __x86_64__
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret)
			 : "a"(54), "b"(fd), "c"((unsigned int)cmd),
			   "d"((unsigned int)(uintptr_t)arg)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)ret < 0 ? -(int)ret : 0;
#else
	return ioctl(fd, cmd, arg) ? errno : 0;
#endif
}
