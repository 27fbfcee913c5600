// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions on device memory. */
#include <errno.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "dm.h"

struct ibv_mr *iopm_reg_dm_mr(struct ibv_pd *pd, struct iopm_dm *base, uint64_t dm_offset,
			      size_t length, unsigned int access)
{
	struct dm *dm = to_dm(base);
	struct ibv_mr *mr;

	/*
	 * The kernel maps whole pages and requires that the address and the IOVA, which
	 * is 0, have the same offset in a page.
	 */
	if (!(access & IBV_ACCESS_ZERO_BASED) || !length || !dm_has(dm, dm_offset, length) ||
	    dm_offset % (uint64_t)sysconf(_SC_PAGESIZE)) {
		errno = EINVAL;
		return NULL;
	}
	mr = ibv_reg_mr_iova2(pd, dm->addr + dm_offset, length, 0,
			      access & ~(unsigned int)IBV_ACCESS_ZERO_BASED);
	/* As in ibv_reg_dm_mr(): the region is zero-based. */
	if (mr)
		mr->addr = NULL;
	return mr;
}
