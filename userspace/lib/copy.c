// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Copies between host and device memory.
 *
 * The kernel copies: pread(2) and pwrite(2) of the file fail with ENODEV when the device is gone,
 * where an access to a mapping raises SIGBUS. So the library needs no handler of that signal,
 * which belongs to the program.
 */
#include <errno.h>
#include <unistd.h>

#include "dm.h"

/* Copies from @from to the device, or from the device to @to; the other one is NULL. */
static int copy(const struct dm *dm, uint64_t offset, size_t length, char *to, const char *from)
{
	int fd = (int)dm->base.handle;

	if (!dm_has(dm, offset, length))
		return EINVAL;
	/* A call may copy less, for example if a signal comes. */
	while (length) {
		ssize_t n = from ? pwrite(fd, from, length, (off_t)offset) :
				   pread(fd, to, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		if (from)
			from += n;
		else
			to += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

int iopm_memcpy_to_dm(struct iopm_dm *base, uint64_t dm_offset, const void *host_addr,
		      size_t length)
{
	return copy(to_dm(base), dm_offset, length, NULL, host_addr);
}

int iopm_memcpy_from_dm(void *host_addr, struct iopm_dm *base, uint64_t dm_offset,
			size_t length)
{
	return copy(to_dm(base), dm_offset, length, host_addr, NULL);
}
