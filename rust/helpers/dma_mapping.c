// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/dma-mapping.h. */
#include <linux/dma-mapping.h>

#include "helpers.h"

unsigned int ext_dma_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}

bool ext_dma_mapping_error(struct device *dev, u64 addr)
{
	return dma_mapping_error(dev, addr);
}

/* Maps device memory in both directions, as the tables are mapped. */
int ext_dma_map_mmio(struct device *dev, u64 phys, u32 len, u64 *addr)
{
	*addr = dma_map_resource(dev, phys, len, DMA_BIDIRECTIONAL, 0);
	return dma_mapping_error(dev, *addr) ? -EIO : 0;
}

void ext_dma_unmap_mmio(struct device *dev, struct scatterlist *sg)
{
	dma_unmap_resource(dev, sg_dma_address(sg), sg_dma_len(sg),
			   DMA_BIDIRECTIONAL, 0);
}
