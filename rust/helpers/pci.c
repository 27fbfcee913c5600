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

static bool redirects(struct pci_dev *bridge)
{
	u16 ctrl = 0;

	if (bridge->acs_cap)
		pci_read_config_word(bridge, bridge->acs_cap + PCI_ACS_CTRL, &ctrl);
	return ctrl & (PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC);
}

/*
 * Returns the path by the rules of drivers/pci/p2pdma.c, which reports only the distance. A device
 * holds a reference to the parent, so the bridges above the device stay valid.
 */
int ext_pci_path(struct pci_dev *provider, struct device *client)
{
	struct pci_dev *a, *b, *first;
	bool up = false;

	while (client && !dev_is_pci(client))
		client = client->parent;
	if (!client)
		return EXT_PATH_NONE;

	first = to_pci_dev(client);
	for (a = provider; a; a = pci_upstream_bridge(a)) {
		up |= redirects(a);
		for (b = first; b && b != a; b = pci_upstream_bridge(b))
			;
		if (b)
			break;
	}
	if (!a)
		return EXT_PATH_HOST;
	for (b = first; b != a; b = pci_upstream_bridge(b))
		up |= redirects(b);
	return up ? EXT_PATH_REDIRECTED : EXT_PATH_BRIDGES;
}
