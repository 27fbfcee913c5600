/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Short functions in C, by the header of the kernel: for macros, which Rust cannot call, and for fields
 * and functions that the kernel crate does not have. bindgen makes wrappers of them and of inline
 * functions of the kernel, see rust/bindings/bindings.mk.
 */
#ifndef EXT_HELPERS_H
#define EXT_HELPERS_H

#include <linux/compiler.h>
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/device/class.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pci.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "compat.h"

/* linux/completion.h */

static inline bool ext_wait_for_completion_timeout(struct completion *done, unsigned int ms)
{
	return wait_for_completion_timeout(done, msecs_to_jiffies(ms)) != 0;
}

/* linux/cred.h */

/*
 * Returns the uid to which the calling process is accounted. In a user namespace a user may have
 * any number of subordinate uids. So for a process in a namespace the uid is the creator of the
 * outermost namespace, as for the limits on namespaces; otherwise the real uid of the process.
 */
static inline u32 ext_current_owner(void)
{
	struct user_namespace *ns = current_user_ns();

	if (!ns->level)
		return __kuid_val(current_uid());
	/* A namespace holds references to all outer namespaces. */
	while (ns->level > 1)
		ns = ns->parent;
	return __kuid_val(ns->owner);
}

/* linux/device.h */

static inline bool ext_device_has_override(struct device *dev)
{
	return device_has_driver_override(dev);
}

static inline bool ext_device_override_is(struct device *dev, const char *driver)
{
	const struct device_driver drv = { .name = driver };

	return device_match_driver_override(dev, &drv) > 0;
}

/* An empty @driver removes the override. */
static inline int ext_device_set_override(struct device *dev, const char *driver)
{
	return device_set_driver_override(dev, driver);
}

/* Returns whether a device below @dev is in the class @name. The depth is that of the tree of devices. */
static inline int ext_device_has_class_below(struct device *dev, void *name)
{
	return (dev->class && !strcmp(dev->class->name, name)) ||
	       device_for_each_child(dev, name, ext_device_has_class_below);
}

/* linux/dma-resv.h */

static inline void ext_dma_resv_lock(struct dma_resv *resv)
{
	dma_resv_lock(resv, NULL);
}

static inline void ext_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

static inline bool ext_dma_resv_wait(struct dma_resv *resv, unsigned int ms)
{
	return dma_resv_wait_timeout(resv, DMA_RESV_USAGE_BOOKKEEP, false, msecs_to_jiffies(ms)) > 0;
}

/* linux/fs.h */

/* Allows pread(2) and pwrite(2) on a file before the file is installed. */
static inline void ext_file_allow_at(struct file *file)
{
	file->f_mode |= FMODE_PREAD | FMODE_PWRITE;
}

/* An unsigned long before Linux 7.3. */
static inline u64 ext_file_inode_number(const struct file *file)
{
	return file_inode(file)->i_ino;
}

/* linux/memcontrol.h */

/* Returns whether the memory cgroup of the caller, and all parents, are not near the limit. */
static inline bool ext_memcg_has_ample_room(unsigned long bytes)
{
#ifdef CONFIG_MEMCG
	/* Each CPU may have charged MEMCG_CHARGE_BATCH pages in advance. */
	unsigned long pages = DIV_ROUND_UP(bytes, PAGE_SIZE) + MEMCG_CHARGE_BATCH;
	struct page_counter *counter;
	bool ample = true;

	if (mem_cgroup_disabled())
		return true;
	rcu_read_lock();
	for (counter = &mem_cgroup_from_task(current)->memory; counter && ample;
	     counter = counter->parent)
		ample = page_counter_read(counter) + pages <= READ_ONCE(counter->max);
	rcu_read_unlock();
	return ample;
#else
	return true;
#endif
}

/*
 * Returns whether the memory cgroup of the caller has headroom for @bytes. A plain allocation above
 * the limit invokes the OOM killer; the allocation here reclaims, and fails.
 */
static inline bool ext_memcg_has_headroom(unsigned long bytes)
{
	void *probe;
	bool has_room;

	/* An allocation may have to clear the memory, so the counters are read first. */
	if (ext_memcg_has_ample_room(bytes))
		return true;
	probe = kmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	has_room = probe != NULL;
	OPTIMIZER_HIDE_VAR(probe);
	kfree(probe);
	return has_room;
}

/* linux/mm.h */

/* Of an address in the direct mapping of struct pages. */
static inline phys_addr_t ext_virt_to_phys(void *kaddr)
{
	return page_to_phys(virt_to_page(kaddr));
}

static inline void *ext_phys_to_virt(phys_addr_t phys)
{
	return page_to_virt(pfn_to_page(PHYS_PFN(phys)));
}

static inline struct page *ext_phys_to_page(phys_addr_t phys)
{
	return pfn_to_page(PHYS_PFN(phys));
}

static inline phys_addr_t ext_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

/* Returns the magic number of the file system of the file, or 0 without a file. */
static inline unsigned long ext_vma_magic(struct vm_area_struct *vma)
{
	return vma->vm_file ? file_inode(vma->vm_file)->i_sb->s_magic : 0;
}

/* Returns the major number of the file, or 0 if it is not that of a character device. */
static inline unsigned int ext_vma_chardev_major(struct vm_area_struct *vma)
{
	struct inode *inode = vma->vm_file ? file_inode(vma->vm_file) : NULL;

	return inode && S_ISCHR(inode->i_mode) ? imajor(inode) : 0;
}

static inline void ext_vma_set_noncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

static inline void ext_vma_set_writecombine(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
}

/*
 * Returns the number of bytes from @addr on, at most up to @end, that are mapped to
 * consecutive physical addresses, for writing if @write, and sets *@phys to the first one.
 * Returns 0 if nothing is mapped at @addr.
 */
static inline unsigned long ext_pfnmap_run(struct vm_area_struct *vma, unsigned long addr,
					   unsigned long end, bool write, u64 *phys)
{
	unsigned long at = addr;

	while (at < end) {
		struct follow_pfnmap_args args = { .vma = vma, .address = at };
		unsigned long next;
		bool allowed;
		u64 here;

		if (follow_pfnmap_start(&args))
			break;
		here = PFN_PHYS((u64)args.pfn);
		allowed = args.writable || !write;
		/* The entry may be a huge page. */
		next = (at & args.addr_mask) - args.addr_mask;
		follow_pfnmap_end(&args);

		if (!allowed)
			break;
		if (at == addr)
			*phys = here;
		else if (here != *phys + (at - addr))
			break;
		at = min(next, end);
	}
	return at - addr;
}

/* linux/pci.h */

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

/* linux/ratelimit.h */

/* Ten lines in five seconds, in each module. */
static inline bool ext_log_allowed(void)
{
	static DEFINE_RATELIMIT_STATE(rs, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&rs);
}

/* linux/rcupdate.h */

/* Otherwise the grace period does not wait for a preempted task in a module's function. */
#if defined(CONFIG_PREEMPTION) && !defined(CONFIG_TASKS_RCU)
#error "ib_peer_mem needs CONFIG_TASKS_RCU on a preemptible kernel"
#endif

static inline void ext_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

/* linux/scatterlist.h */

static inline void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), len, offset_in_page(phys));
}

/* Of an entry without a page. */
static inline void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	sg->length = len;
}

/*
 * Of an entry with pages, not on x86: returns whether the CPU may copy the bytes by memcpy(), at any
 * alignment. The kernel maps the pages of a PCI BAR uncached (pgprot_noncached() in memremap_pages()). On
 * x86 an uncached mapping permits unaligned accesses. On other architectures it may be a mapping of device
 * registers, in which an unaligned access faults: Device-nGnRnE on arm64.
 */
static inline bool ext_sg_is_copyable(struct scatterlist *sg)
{
	unsigned long pfn = PHYS_PFN(sg_phys(sg)), end = PHYS_PFN(sg_phys(sg) + sg->length - 1);

	/* A subsection is the unit in which memremap_pages() adds memory. */
	for (; pfn <= end; pfn = ALIGN(pfn + 1, PAGES_PER_SUBSECTION))
		if (is_pci_p2pdma_page(pfn_to_page(pfn)))
			return false;
	return true;
}

/* linux/uaccess.h */

/* Returns @addr of the calling process without the bits that the CPU ignores, as GUP does. */
static inline unsigned long ext_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}

/* The first canonical address of the kernel. */
static inline unsigned long ext_kernel_half(void)
{
#if defined(CONFIG_X86_64)
	return ~__VIRTUAL_MASK;
#elif defined(CONFIG_ARM64)
	return _PAGE_OFFSET(vabits_actual);
#else
	return ULONG_MAX;
#endif
}

#endif
