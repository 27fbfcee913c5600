/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/dma-resv.h>
#include <linux/jiffies.h>

static inline void ext_dma_resv_lock(struct dma_resv *resv)
{
	dma_resv_lock(resv, NULL);
}

static inline void ext_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

static inline bool ext_dma_resv_wait(struct dma_resv *resv, unsigned int ms)
{
	return dma_resv_wait_timeout(resv, DMA_RESV_USAGE_BOOKKEEP, false, msecs_to_jiffies(ms)) > 0;
}
