// SPDX-License-Identifier: GPL-2.0
/* Helpers for rdma/ib_verbs.h. */
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

bool ext_ib_device_is_gone(struct ib_device *device)
{
	struct device *dma = device->dma_device;

	return dma && dev_is_pci(dma) && !pci_device_is_present(to_pci_dev(dma));
}
