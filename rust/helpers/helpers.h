/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for macros, which Rust cannot call, and for inline functions whose types or names differ
 * between kernels. There is one C file for each kernel header. bindgen makes wrappers of other inline
 * functions, see rust/bindings/bindings.mk. Used by bindgen and by the C files.
 */
#ifndef EXT_HELPERS_H
#define EXT_HELPERS_H

#include <linux/types.h>

struct completion;
struct device;
struct file;
struct dma_resv;
struct page;
struct pci_dev;
struct scatterlist;
struct vm_area_struct;

/* linux/completion.h */
bool ext_wait_for_completion_timeout(struct completion *done, unsigned int ms);

/* linux/device.h */
bool ext_device_has_override(struct device *dev);
bool ext_device_override_is(struct device *dev, const char *driver);
bool ext_device_has_class_below(struct device *dev, const char *name);
int ext_device_set_override(struct device *dev, const char *driver);

/* linux/dma-resv.h */
void ext_dma_resv_lock(struct dma_resv *resv);
void ext_dma_resv_unlock(struct dma_resv *resv);
bool ext_dma_resv_wait(struct dma_resv *resv, unsigned int ms);

/* linux/fs.h */
void ext_file_allow_at(struct file *file);
u64 ext_file_inode_number(const struct file *file);

/* linux/mm.h */
struct page *ext_phys_to_page(phys_addr_t phys);
void *ext_phys_to_virt(phys_addr_t phys);
phys_addr_t ext_virt_to_phys(void *kaddr);
phys_addr_t ext_page_to_phys(struct page *page);
unsigned long ext_vma_magic(struct vm_area_struct *vma);
unsigned int ext_vma_chardev_major(struct vm_area_struct *vma);
void ext_vma_set_noncached(struct vm_area_struct *vma);
void ext_vma_set_writecombine(struct vm_area_struct *vma);

/* linux/pci.h */
s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar);
bool ext_pci_has_p2pdma(struct pci_dev *pdev);

/* linux/ratelimit.h */
bool ext_log_allowed(void);

/* linux/rcupdate.h */
void ext_synchronize_rcu_tasks(void);

/* linux/scatterlist.h */
void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len);
void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len);

/* linux/uaccess.h */

/* Returns @addr of the calling process without the bits that the CPU ignores, as GUP does. */
unsigned long ext_untagged_addr(unsigned long addr);
unsigned long ext_kernel_half(void);

/* rdma/ib_verbs.h */

/* Makes the driver allocate an MR for work requests. Returns an ERR_PTR() on failure. */
void *ext_ib_alloc_mr(void *pd, u32 pages);
/* Returns whether @dma is a PCI function that is gone from the bus. */
bool ext_dma_is_gone(struct device *dma);
/*
 * Returns whether @dma is a PCI function that is gone, or that is not a bus master and so cannot
 * access memory.
 */
bool ext_dma_is_off(struct device *dma);

#endif
