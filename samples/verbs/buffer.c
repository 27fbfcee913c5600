// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <io_peer_mem.h>

#include "actions.h"

struct buffer buffer_map(const char *path, size_t length, int prot)
{
	struct buffer b = { .length = length, .fd = -1 };
	int flags = MAP_SHARED;

	if (strcmp(path, "host") == 0) {
		flags = MAP_PRIVATE | MAP_ANONYMOUS;
	} else {
		/*
		 * Each mapping of a BAR's device allocates a range of the BAR. The
		 * range is free again when this mapping and all MRs on it are gone.
		 */
		b.fd = open(path, (prot & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
		if (b.fd < 0)
			err(1, "open %s (\"iopm list\" shows the BARs)", path);
	}
	b.addr = mmap(NULL, length, prot, flags, b.fd, 0);
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
		/* Another client's memory: it begins at the start of the mapping. */
		if (errno == ENOTTY)
			return 0;
		err(1, "IO_PEER_MEM_IOC_RANGE");
	}
	return range.bar_offset;
}
