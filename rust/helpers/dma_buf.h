/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_HELPERS_DMA_BUF_H
#define EXT_HELPERS_DMA_BUF_H

struct device;
struct dma_buf;
struct dma_resv;

void ext_dma_resv_lock(struct dma_resv *resv);
void ext_dma_resv_unlock(struct dma_resv *resv);
void ext_dma_resv_wait(struct dma_resv *resv);
void ext_dma_buf_invalidate_mapped(struct dma_buf *buf);
unsigned int ext_dma_max_seg_size(struct device *dev);

#endif
