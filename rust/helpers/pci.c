// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/pci.h. */
#include <linux/pci.h>

#include "helpers.h"

s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar)
{
	return pci_bus_address(pdev, bar) - pci_resource_start(pdev, bar);
}

/* Returns whether the driver of a function has begun to use p2pdma. */
bool ext_pci_has_p2pdma(struct pci_dev *pdev)
{
	return rcu_access_pointer(pdev->p2pdma) != NULL;
}
