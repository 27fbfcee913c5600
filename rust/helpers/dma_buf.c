// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/dma-buf.h. */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>

#include "helpers.h"

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
