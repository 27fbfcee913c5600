/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for static inlines and macros, which Rust cannot call. There is one C file for each
 * kernel header. Used by bindgen and by the C files.
 */
#ifndef EXT_HELPERS_H
#define EXT_HELPERS_H

#include <linux/types.h>

struct completion;
struct device;
struct file;
struct dma_resv;
struct mmu_interval_notifier;
struct page;
struct pci_dev;
struct scatterlist;
struct vm_area_struct;
struct workqueue_struct;

/* linux/completion.h */
bool ext_wait_for_completion_timeout(struct completion *done, unsigned int ms);

/* linux/device.h */
bool ext_device_trylock(struct device *dev);
void ext_device_unlock(struct device *dev);
bool ext_device_has_override(struct device *dev);
bool ext_device_override_is(struct device *dev, const char *driver);
bool ext_device_has_class_below(struct device *dev, const char *name);
int ext_device_set_override(struct device *dev, const char *driver);

/* linux/dma-mapping.h */
unsigned int ext_dma_max_seg_size(struct device *dev);
bool ext_dma_mapping_error(struct device *dev, u64 addr);
int ext_dma_map_mmio(struct device *dev, u64 phys, u32 len, u64 *addr);
void ext_dma_unmap_mmio(struct device *dev, struct scatterlist *sg);

/* linux/dma-resv.h */
void ext_dma_resv_lock(struct dma_resv *resv);
void ext_dma_resv_unlock(struct dma_resv *resv);
bool ext_dma_resv_wait(struct dma_resv *resv, unsigned int ms);

/* linux/fs.h */
void ext_file_allow_at(struct file *file);
u64 ext_file_inode_number(const struct file *file);

/* linux/memremap.h */
bool ext_is_pci_p2pdma_page(struct page *page);

/* linux/mm.h */
struct page *ext_phys_to_page(phys_addr_t phys);
void *ext_phys_to_virt(phys_addr_t phys);
phys_addr_t ext_virt_to_phys(void *kaddr);
phys_addr_t ext_page_to_phys(struct page *page);
unsigned long ext_vma_magic(struct vm_area_struct *vma);
unsigned int ext_vma_chardev_major(struct vm_area_struct *vma);
void ext_vma_set_noncached(struct vm_area_struct *vma);
void ext_vma_set_writecombine(struct vm_area_struct *vma);

/* linux/mmu_notifier.h */
void ext_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq);
bool ext_mmu_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq);

/* linux/pci.h */
unsigned long ext_pci_resource_flags(struct pci_dev *pdev, int bar);
int ext_pci_domain(struct pci_dev *pdev);
s64 ext_pci_bus_offset(struct pci_dev *pdev, int bar);
bool ext_pci_has_p2pdma(struct pci_dev *pdev);

/* linux/ratelimit.h */
bool ext_log_allowed(void);

/* linux/rcupdate.h */
void ext_synchronize_rcu_tasks(void);

/* linux/scatterlist.h */
bool ext_sg_has_page(struct scatterlist *sg);
bool ext_sg_is_last(struct scatterlist *sg);
phys_addr_t ext_sg_phys(struct scatterlist *sg);
void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len);
void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len);

/* linux/sched.h */
bool ext_current_is_kthread(void);
unsigned int ext_memalloc_noreclaim_save(void);
void ext_memalloc_noreclaim_restore(unsigned int flags);

/* linux/security.h */
int ext_locked_down_pci(void);

/* linux/uaccess.h */

/* Returns @addr of the calling process without the bits that the CPU ignores, as GUP does. */
unsigned long ext_untagged_addr(unsigned long addr);
unsigned long ext_kernel_half(void);

/* linux/workqueue.h */
struct workqueue_struct *ext_alloc_workqueue(const char *name, bool reclaim);

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
