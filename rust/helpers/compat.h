/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels, in C; see rust/ext/base/compat.rs. HAVE_* are the features that
 * rust/probe finds. An item is removed together with the last release that needs the item.
 */
#ifndef EXT_HELPERS_COMPAT_H
#define EXT_HELPERS_COMPAT_H

#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/kallsyms.h>
#include <linux/memremap.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

/* 7.0: the names of the callback of importers, and of the function that calls them. */
#ifndef HAVE_DMA_BUF_INVALIDATE
#define invalidate_mappings move_notify
#define dma_buf_invalidate_mappings dma_buf_move_notify
#endif

/*
 * 7.0: ib_core has a callback also for memory that stays pinned, and that callback only warns. So the
 * name of the callback decides: an importer can be revoked if its callback has a name, which does
 * not say that it is unsupported.
 */
#ifndef HAVE_DMA_BUF_REVOCABLE
static inline bool dma_buf_attach_revocable(struct dma_buf_attachment *attach)
{
	char name[KSYM_SYMBOL_LEN];

	if (!attach->importer_ops || !attach->importer_ops->invalidate_mappings)
		return false;
	sprint_symbol(name, (unsigned long)attach->importer_ops->invalidate_mappings);
	/* Without the symbol there is no name, or that of the function before it. */
	return strstr(name, "+0x0/") && !strstr(name, "unsupported");
}
#endif

/* 7.0: a PCI function has an override of its own, and the PCI bus ignores that of the device. */
#ifdef HAVE_PCI_DRIVER_OVERRIDE
static inline bool ext_pci_override_is(struct device *dev, const char *driver)
{
	const char *override;
	bool is;

	device_lock(dev);
	override = to_pci_dev(dev)->driver_override;
	is = override && (!driver || !strcmp(override, driver));
	device_unlock(dev);
	return is;
}
#define device_has_driver_override(dev) ext_pci_override_is(dev, NULL)
#define device_match_driver_override(dev, drv) ext_pci_override_is(dev, (drv)->name)
#define device_set_driver_override(dev, name) \
	driver_set_override(dev, &to_pci_dev(dev)->driver_override, name, strlen(name))
#endif

/*
 * 7.0, without a header that shows it: dma_map_sg() writes no DMA address into the entry of a BAR that a
 * device without an IOMMU reaches through a host bridge. The entry keeps the address that it had, so
 * ours has the right one before the call. A client that calls dma_map_sg() leaves 0, the address of
 * no BAR.
 */
static inline int ext_dma_map_sgtable(struct device *dev, struct sg_table *sgt,
				      enum dma_data_direction dir, unsigned long attrs)
{
#ifndef HAVE_DMA_BUF_REVOCABLE
	struct scatterlist *sg;
	int i;

	for_each_sgtable_sg(sgt, sg, i) {
		if (!is_pci_p2pdma_page(sg_page(sg)))
			continue;
		sg_dma_address(sg) = phys_to_dma(dev, sg_phys(sg));
		if (!dma_capable(dev, sg_dma_address(sg), sg->length, false))
			return -EREMOTEIO;
	}
#endif
	return dma_map_sgtable(dev, sgt, dir, attrs);
}

/* 7.0: for an entry that is mapped, and has a page or not. */
static inline bool ext_sg_is_left_unmapped(struct scatterlist *sg)
{
	return !sg_dma_address(sg) && sg_page(sg) && is_pci_p2pdma_page(sg_page(sg));
}

#endif
