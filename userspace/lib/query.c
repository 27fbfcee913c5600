// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Questions about an allocation, and its export. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ib_peer_mem.h>
#include <io_peer_mem.h>

#include "dm.h"
#include "fill.h"

/* The kernel decides, by the BAR. It maps a page at the first access, and there is none. */
static bool combines_writes(const struct iopm_dm *dm)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *addr = mmap(NULL, page, PROT_READ, MAP_SHARED, (int)dm->handle,
			  (off_t)IO_PEER_MEM_MMAP_WC);

	if (addr == MAP_FAILED)
		return false;
	munmap(addr, page);
	return true;
}

int _iopm_query_dm(struct iopm_dm *dm, struct iopm_dm_attr *attr, size_t attr_size)
{
	struct io_peer_mem_dm_info info = { .version = IO_PEER_MEM_DM_VERSION };
	struct iopm_dm_attr all = { 0 };

	if (ioctl((int)dm->handle, IO_PEER_MEM_IOC_DM_INFO, &info))
		return errno;
	all.bar = info.bar;
	all.function.domain = info.domain;
	all.function.bdf = info.address;
	all.length = info.length;
	all.size = info.size;
	all.bar_offset = info.bar_offset;
	/* Not for a program that was built before there was this member. */
	if (attr_size >= end_of(struct iopm_dm_attr, mmap_wc) && combines_writes(dm)) {
		all.comp_mask |= IOPM_DM_ATTR_MMAP_WC;
		all.mmap_wc = IO_PEER_MEM_MMAP_WC;
	}
	return fill(attr, attr_size, &all, sizeof(all), end_of(struct iopm_dm_attr, bar_offset));
}

int iopm_export_dmabuf(struct iopm_dm *base, uint64_t dm_offset, size_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct ib_peer_mem_export arg = { .version = IB_PEER_MEM_EXPORT_VERSION };
	struct dm *dm = to_dm(base);
	int control, error;

	/* The last page of the allocation counts as a whole. */
	if (!length || dm_offset % page || !dm_has(dm, dm_offset, length) ||
	    (length % page && dm_offset + length != dm->length)) {
		errno = EINVAL;
		return -1;
	}
	control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return -1;
	arg.addr = (uintptr_t)dm->addr + dm_offset;
	arg.length = (length + page - 1) / page * page;
	error = ioctl(control, IB_PEER_MEM_IOC_EXPORT, &arg) ? errno : 0;
	close(control);
	if (!error)
		return arg.fd;
	errno = error;
	return -1;
}
