// SPDX-License-Identifier: GPL-2.0
/* The path between two PCI devices. */
#include <linux/pci.h>

#include "logic.h"

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
