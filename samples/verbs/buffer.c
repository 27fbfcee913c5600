// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <io_peer_mem.h>

#include "buffer.h"
#include "hint.h"

struct buffer buffer_map(const char *path, size_t length, int prot, void *at)
{
	struct buffer b = { .length = length, .fd = -1 };
	int flags = at ? MAP_FIXED_NOREPLACE : 0;

	if (strcmp(path, "host") == 0) {
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
	} else {
		/*
		 * Each mapping of the device is a range of the BAR of its own: it
		 * is allocated here, and given back when the last user of it is
		 * gone, be that this mapping or an MR made from it.
		 */
		flags |= MAP_SHARED;
		b.fd = open(path, (prot & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
		if (b.fd < 0) {
			int error = errno;

			warn("open %s", path);
			hint_open(error);
			exit(1);
		}
	}
	b.addr = mmap(at, length, prot, flags, b.fd, 0);
	if (b.addr == MAP_FAILED)
		err(1, "mmap %zu bytes of %s", length, path);
	return b;
}

void buffer_unmap(struct buffer *b)
{
	if (munmap(b->addr, b->length))
		err(1, "munmap");
	if (b->fd >= 0)
		close(b->fd);
}

uint64_t buffer_bar_offset(const struct buffer *b)
{
	struct io_peer_mem_range range = { .addr = (uintptr_t)b->addr };

	if (b->fd < 0)
		return 0;
	if (ioctl(b->fd, IO_PEER_MEM_IOC_RANGE, &range)) {
		/* The memory of another client: it begins where the mapping does. */
		if (errno == ENOTTY)
			return 0;
		err(1, "IO_PEER_MEM_IOC_RANGE");
	}
	return range.bar_offset;
}
