// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro in some configuration, for rust/rdma. */
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#include "rdma.h"

void ext_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

bool ext_sg_has_page(struct scatterlist *sg)
{
	return sg_page(sg) != NULL;
}

phys_addr_t ext_sg_phys(struct scatterlist *sg)
{
	return sg_phys(sg);
}

void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), len, offset_in_page(phys));
}

void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	sg->length = len;
}

void ext_ib_device_get(struct ib_device *device)
{
	refcount_inc(&device->refcount);
}
