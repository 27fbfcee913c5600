/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What io_peer_mem's abstractions need of the kernel and Rust cannot reach: static
 * inlines, macros, and string module parameters. Read by bindgen and by mm.c.
 */
#ifndef EXT_MM_H
#define EXT_MM_H

#include <linux/types.h>

struct device;
struct page;
struct pci_dev;
struct vm_area_struct;

void ext_p2p_pages_init(void *kaddr, unsigned long n);
void ext_p2p_pages_put(void *kaddr, unsigned long n);
struct page *ext_virt_to_page(void *kaddr);
phys_addr_t ext_page_to_phys(struct page *page);
bool ext_is_pci_p2pdma_page(struct page *page);
unsigned long ext_pci_resource_flags(struct pci_dev *pdev, int bar);
void ext_vma_set_noncached(struct vm_area_struct *vma);
unsigned int ext_dma_max_seg_size(struct device *dev);

/* Defined by each module that has string parameters. */
const char *ext_module_param_str(const char *name);

#endif /* EXT_MM_H */
