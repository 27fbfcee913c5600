// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/scatterlist.h. */
#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>

#include "helpers.h"

void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), len, offset_in_page(phys));
}

/* Of an entry without a page. */
void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	sg->length = len;
}
