// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/pci.h. */
#include <linux/pci.h>

#include "helpers.h"

unsigned long ext_pci_resource_flags(struct pci_dev *pdev, int bar)
{
	return pci_resource_flags(pdev, bar);
}

int ext_pci_domain(struct pci_dev *pdev)
{
	return pci_domain_nr(pdev->bus);
}

/*
 * Sets [*start, *end) to the addresses of a memory BAR. Returns false if @bar is not a memory
 * BAR.
 */
bool ext_pci_mem_bar(struct pci_dev *pdev, int bar, u64 *start, u64 *end)
{
	unsigned long flags = pci_resource_flags(pdev, bar);

	if (!(flags & IORESOURCE_MEM) || flags & IORESOURCE_UNSET ||
	    !pci_resource_len(pdev, bar))
		return false;
	*start = pci_resource_start(pdev, bar);
	*end = pci_resource_end(pdev, bar) + 1;
	return true;
}

s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar)
{
	return pci_bus_address(pdev, bar) - pci_resource_start(pdev, bar);
}

/* Returns whether the driver of a function has begun to use p2pdma. */
bool ext_pci_has_p2pdma(struct pci_dev *pdev)
{
	return rcu_access_pointer(pdev->p2pdma) != NULL;
}
