// SPDX-License-Identifier: GPL-2.0
/* Helpers for rdma/ib_verbs.h. */
#include <linux/err.h>
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

bool ext_dma_is_gone(struct device *dma)
{
	return dev_is_pci(dma) && !pci_device_is_present(to_pci_dev(dma));
}

bool ext_dma_is_off(struct device *dma)
{
	u16 command;

	if (!dev_is_pci(dma))
		return false;
	return ext_dma_is_gone(dma) ||
	       (!pci_read_config_word(to_pci_dev(dma), PCI_COMMAND, &command) &&
		!(command & PCI_COMMAND_MASTER));
}

/* In C, because bindgen's type of the enum differs from the driver's function for kCFI. */
void *ext_ib_alloc_mr(void *pd, u32 pages)
{
	struct ib_pd *in = pd;

	if (!in->device->ops.alloc_mr)
		return ERR_PTR(-EOPNOTSUPP);
	return in->device->ops.alloc_mr(in, IB_MR_TYPE_MEM_REG, pages);
}
