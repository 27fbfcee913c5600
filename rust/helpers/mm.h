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
struct scatterlist;
struct vm_area_struct;

void ext_p2p_pages_init(void *kaddr, unsigned long n);
void ext_p2p_pages_put(void *kaddr, unsigned long n);
bool ext_p2p_pages_in_use(void *kaddr, unsigned long n);
struct page *ext_virt_to_page(void *kaddr);
phys_addr_t ext_page_to_phys(struct page *page);
bool ext_is_pci_p2pdma_page(struct page *page);
unsigned long ext_pci_resource_flags(struct pci_dev *pdev, int bar);
int ext_pci_domain(struct pci_dev *pdev);
unsigned int ext_pci_id(struct pci_dev *pdev);
bool ext_pci_mem_bar(struct pci_dev *pdev, int bar, u64 *start, u64 *end);
s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar);
bool ext_vma_is_sysfs(struct vm_area_struct *vma);
unsigned long ext_pfnmap_run(struct vm_area_struct *vma, unsigned long addr,
			     unsigned long end, u64 *phys);
int ext_dma_map_mmio(struct device *dev, u64 phys, u32 len, u64 *addr);
void ext_dma_unmap_mmio(struct device *dev, struct scatterlist *sg);
void ext_sg_set_mmio(struct scatterlist *sg, u64 addr, u32 len);
void ext_vma_set_noncached(struct vm_area_struct *vma);
unsigned int ext_dma_max_seg_size(struct device *dev);

/* Pages that are free: all, the most in one run, and those of the run at the end. */
struct ext_p2p_room {
	unsigned long free;
	unsigned long largest;
	unsigned long run;
};

void ext_p2p_room_add(struct ext_p2p_room *room, u64 phys, u64 end);

/* What lies between a function and a device, which may be below another one. */
enum ext_pci_path_kind {
	EXT_PATH_NONE,		/* the device has nothing to do with PCI */
	EXT_PATH_BRIDGES,	/* bridges above both, which let it pass */
	EXT_PATH_REDIRECTED,	/* such bridges, which send it up to the host bridge */
	EXT_PATH_HOST,		/* no bridge is above both */
};

int ext_pci_path(struct pci_dev *provider, struct device *client);

#endif /* EXT_MM_H */
