/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/pci.h>
#include <linux/rcupdate.h>

static inline s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar)
{
	return pci_bus_address(pdev, bar) - pci_resource_start(pdev, bar);
}

/* Returns whether the driver of a function has begun to use p2pdma. */
static inline bool ext_pci_has_p2pdma(struct pci_dev *pdev)
{
	return rcu_access_pointer(pdev->p2pdma) != NULL;
}

/* Returns whether @dma is a PCI function that is gone from the bus. */
static inline bool ext_dma_is_gone(struct device *dma)
{
	return dev_is_pci(dma) && !pci_device_is_present(to_pci_dev(dma));
}

/*
 * Returns whether @dma is a PCI function that is gone, or that is not a bus master and so cannot
 * access memory.
 */
static inline bool ext_dma_is_off(struct device *dma)
{
	u16 command;

	if (!dev_is_pci(dma))
		return false;
	return ext_dma_is_gone(dma) ||
	       (!pci_read_config_word(to_pci_dev(dma), PCI_COMMAND, &command) &&
		!(command & PCI_COMMAND_MASTER));
}
