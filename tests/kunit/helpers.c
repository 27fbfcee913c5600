// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro in some configuration, for the tests. */
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>

#include "helpers.h"

u64 kt_alloc(unsigned int order)
{
	unsigned long virt = __get_free_pages(GFP_KERNEL | __GFP_ZERO, order);

	return virt ? virt_to_phys((void *)virt) : 0;
}

void kt_free(u64 phys, unsigned int order)
{
	free_pages((unsigned long)phys_to_virt(phys), order);
}

u64 kt_phys_of(u64 virt)
{
	return virt_to_phys((void *)(unsigned long)virt);
}

/* phys 0: an entry without a page, as drivers of page-less memory make them. */
void kt_sg_set(struct scatterlist *sg, u64 phys, unsigned int len)
{
	sg_set_page(sg, phys ? pfn_to_page(PHYS_PFN(phys)) : NULL, len,
		    offset_in_page(phys));
}

void kt_sg_set_dma(struct scatterlist *sg, u64 addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
}

void kt_set_max_seg_size(struct device *dev, unsigned int size)
{
	dma_set_max_seg_size(dev, size);
}

int kt_dma_map(struct device *dev, struct sg_table *table)
{
	return dma_map_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
}

void kt_dma_unmap(struct device *dev, struct sg_table *table)
{
	dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
}

/* The calling task's n-th allocation from now on fails; 0: none. */
void kt_fail_nth(unsigned int n)
{
	WRITE_ONCE(current->fail_nth, n);
}

unsigned int kt_fail_left(void)
{
	return READ_ONCE(current->fail_nth);
}

void kt_count_up(atomic_t *count)
{
	atomic_inc(count);
}
