// SPDX-License-Identifier: GPL-2.0
/* The invalidation of importers. */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>

#include "../helpers/compat.h"
#include "logic.h"

/* Makes the importer invalidate all mappings, if it has such an operation. */
void ext_dma_buf_invalidate(struct dma_buf_attachment *attach)
{
	if (attach->importer_ops && attach->importer_ops->invalidate_mappings)
		attach->importer_ops->invalidate_mappings(attach);
}

/*
 * Like dma_buf_invalidate_mappings(), for a dma-buf whose exporter counts the mapped tables
 * of each attachment in attach->priv. Attachments without a mapped table are skipped: an
 * attachment is on the list before dma_buf_dynamic_attach() returns it, and importers such
 * as ib_umem_dmabuf dereference the return value in their callback.
 */
void ext_dma_buf_invalidate_mapped(struct dma_buf *buf)
{
	struct dma_buf_attachment *attach;

	dma_resv_assert_held(buf->resv);

	list_for_each_entry(attach, &buf->attachments, node)
		if (attach->priv)
			ext_dma_buf_invalidate(attach);
}
