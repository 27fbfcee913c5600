// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro in some configuration, for rust/dma_buf.rs. */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/sched.h>

#include "dma_buf.h"

void ext_dma_resv_lock(struct dma_resv *resv)
{
	/* Without a context to back off with it does not fail. */
	dma_resv_lock(resv, NULL);
}

void ext_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

void ext_dma_resv_wait(struct dma_resv *resv)
{
	dma_resv_wait_timeout(resv, DMA_RESV_USAGE_BOOKKEEP, false, MAX_SCHEDULE_TIMEOUT);
}

/*
 * As dma_buf_invalidate_mappings(), for a dma-buf that counts in attach->priv how many
 * tables an importer has. One that has none has nothing to let go of, and may be about to
 * attach: it is in the list before dma_buf_dynamic_attach() returns, and importers like
 * ib_umem_dmabuf use in their callback what that has yet to return to them.
 */
void ext_dma_buf_invalidate_mapped(struct dma_buf *buf)
{
	struct dma_buf_attachment *attach;

	dma_resv_assert_held(buf->resv);

	list_for_each_entry(attach, &buf->attachments, node)
		if (attach->priv && attach->importer_ops && attach->importer_ops->invalidate_mappings)
			attach->importer_ops->invalidate_mappings(attach);
}

unsigned int ext_dma_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}
