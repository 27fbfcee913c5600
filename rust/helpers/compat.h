/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernels in C: the names of the newest kernel, for what older kernels have. Part of
 * the room that rust/ext/base/compat.rs describes.
 */
#ifndef EXT_COMPAT_H
#define EXT_COMPAT_H

#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/kallsyms.h>
#include <linux/pci.h>
#include <linux/string.h>

#include "features.h"

/* 7.0 */
#ifndef HAS_DMA_BUF_INVALIDATE
#define invalidate_mappings move_notify
#define dma_buf_invalidate_mappings dma_buf_move_notify
#endif

/*
 * 7.0: there each importer that is not static has a callback. That of ib_core for pinned memory only logs
 * a warning. An importer whose callback has no name is taken for one of those.
 */
#ifndef HAS_DMA_BUF_ATTACH_REVOCABLE
static inline bool dma_buf_attach_revocable(struct dma_buf_attachment *attach)
{
	char name[KSYM_SYMBOL_LEN];

	if (!attach->importer_ops || !attach->importer_ops->invalidate_mappings)
		return false;
	sprint_symbol_no_offset(name, (unsigned long)attach->importer_ops->invalidate_mappings);
	return !str_has_prefix(name, "0x") &&
	       !str_has_prefix(name, "ib_umem_dmabuf_unsupported_move_notify");
}
#endif

#ifdef HAS_PCI_DRIVER_OVERRIDE
/* 7.0: PCI ignores the override of the device, and has its own. */
static inline bool compat_has_driver_override(struct device *dev)
{
	guard(device)(dev);
	return to_pci_dev(dev)->driver_override;
}

static inline bool compat_driver_override_is(struct device *dev, const char *driver)
{
	guard(device)(dev);
	return to_pci_dev(dev)->driver_override && !strcmp(to_pci_dev(dev)->driver_override, driver);
}

static inline int compat_set_driver_override(struct device *dev, const char *driver)
{
	return driver_set_override(dev, &to_pci_dev(dev)->driver_override, driver, strlen(driver));
}
#else
static inline bool compat_has_driver_override(struct device *dev)
{
	return device_has_driver_override(dev);
}

static inline bool compat_driver_override_is(struct device *dev, const char *driver)
{
	const struct device_driver drv = { .name = driver };

	return device_match_driver_override(dev, &drv) > 0;
}

static inline int compat_set_driver_override(struct device *dev, const char *driver)
{
	return device_set_driver_override(dev, driver);
}
#endif

#endif
