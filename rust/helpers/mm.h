/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/fs.h>
#include <linux/mm.h>

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
