/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_HELPERS_RDMA_H
#define EXT_HELPERS_RDMA_H

#include <linux/types.h>

struct ib_device;
struct scatterlist;

void ext_synchronize_rcu_tasks(void);
bool ext_sg_has_page(struct scatterlist *sg);
phys_addr_t ext_sg_phys(struct scatterlist *sg);
void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len);
void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len);
void ext_ib_device_get(struct ib_device *device);

#endif
