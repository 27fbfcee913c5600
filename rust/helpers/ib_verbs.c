// SPDX-License-Identifier: GPL-2.0
/* Helpers for rdma/ib_verbs.h. */
#include <linux/err.h>
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

bool ext_ib_device_is_gone(struct ib_device *device)
{
	struct device *dma = device->dma_device;

	return dma && dev_is_pci(dma) && !pci_device_is_present(to_pci_dev(dma));
}

/* Not from Rust: bindgen's type of the enum is not that of the driver's function for kCFI. */
void *ext_ib_alloc_mr(void *pd, u32 pages)
{
	struct ib_pd *in = pd;

	if (!in->device->ops.alloc_mr)
		return ERR_PTR(-EOPNOTSUPP);
	return in->device->ops.alloc_mr(in, IB_MR_TYPE_MEM_REG, pages);
}
