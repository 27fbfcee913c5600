// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Allocation, import and free. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <io_peer_mem.h>

#include "dm.h"

/*
 * Creates the object for @fd and takes ownership of @fd, even on failure. The mapping is for
 * registrations, which take an address. The kernel maps each page at the first access, and there
 * is none, so the mapping itself is cheap.
 */
static struct iopm_dm *dm_new(struct iopm_context *context, int fd)
{
	struct io_peer_mem_dm_info info = { .version = IO_PEER_MEM_DM_VERSION };
	struct dm *dm = calloc(1, sizeof(*dm));
	int error = ENOMEM;

	if (!dm)
		goto out_close;
	if (ioctl(fd, IO_PEER_MEM_IOC_DM_INFO, &info)) {
		/* Not an allocation. */
		error = errno == ENOTTY ? EINVAL : errno;
		goto out_free;
	}
	dm->base.context = context;
	dm->base.comp_mask = IOPM_DM_MASK_HANDLE;
	dm->base.handle = fd;
	dm->length = info.length;
	dm->size = (size_t)info.size;
	/* An import of 4 GiB or more in a program of 32 bits: ENOMEM, as of mmap(2). */
	if (dm->size != info.size)
		goto out_free;
	dm->addr = mmap(NULL, dm->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (dm->addr == MAP_FAILED) {
		error = errno;
		goto out_free;
	}
	/* A child imports the handle instead: an inherited mapping would keep the memory. */
	madvise(dm->addr, dm->size, MADV_DONTFORK);
	return &dm->base;

out_free:
	free(dm);
out_close:
	close(fd);
	errno = error;
	return NULL;
}

struct iopm_dm *iopm_alloc_dm(struct iopm_context *context, struct iopm_alloc_dm_attr *attr)
{
	struct io_peer_mem_dm_alloc alloc = {
		.version = IO_PEER_MEM_DM_VERSION,
		.length = attr->length,
		.log_align = attr->log_align_req,
	};
	uint32_t flags = 0;

	/* A program that was built before there were flags has no such member. */
	if (attr->comp_mask & IOPM_ALLOC_DM_MASK_FLAGS)
		flags = attr->flags;
	if (attr->comp_mask & ~(uint32_t)IOPM_ALLOC_DM_MASK_FLAGS ||
	    flags & ~(uint32_t)IOPM_ALLOC_DM_ZERO) {
		errno = EINVAL;
		return NULL;
	}
	if (flags & IOPM_ALLOC_DM_ZERO)
		alloc.flags |= IO_PEER_MEM_DM_ZERO;
	if (ioctl(context->cmd_fd, IO_PEER_MEM_IOC_DM_ALLOC, &alloc))
		return NULL;
	return dm_new(context, alloc.fd);
}

struct iopm_dm *iopm_import_dm(struct iopm_context *context, uint32_t dm_handle)
{
	int fd = fcntl((int)dm_handle, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? NULL : dm_new(context, fd);
}

void iopm_unimport_dm(struct iopm_dm *base)
{
	struct dm *dm = to_dm(base);

	munmap(dm->addr, dm->size);
	close((int)dm->base.handle);
	free(dm);
}

int iopm_free_dm(struct iopm_dm *base)
{
	struct io_peer_mem_dm_free arg = { .version = IO_PEER_MEM_DM_VERSION };
	struct dm *dm = to_dm(base);

	/* mlockall(2) accesses every mapping: the pages of this one are in use then. */
	madvise(dm->addr, dm->size, MADV_DONTNEED);
	/* ENODEV: the device was removed or another process has freed the memory. */
	if (ioctl((int)base->handle, IO_PEER_MEM_IOC_DM_FREE, &arg) && errno != ENODEV)
		return errno;
	iopm_unimport_dm(base);
	return 0;
}
