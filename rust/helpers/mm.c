// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/mm.h. */
#include <linux/fs.h>
#include <linux/mm.h>

#include "helpers.h"

/* Of an address in the direct mapping of struct pages. */
phys_addr_t ext_virt_to_phys(void *kaddr)
{
	return page_to_phys(virt_to_page(kaddr));
}

void *ext_phys_to_virt(phys_addr_t phys)
{
	return page_to_virt(pfn_to_page(PHYS_PFN(phys)));
}

struct page *ext_phys_to_page(phys_addr_t phys)
{
	return pfn_to_page(PHYS_PFN(phys));
}

phys_addr_t ext_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

/* Returns the magic number of the file system of the file, or 0 without a file. */
unsigned long ext_vma_magic(struct vm_area_struct *vma)
{
	return vma->vm_file ? file_inode(vma->vm_file)->i_sb->s_magic : 0;
}

/* Returns the major number of the file, or 0 if it is not that of a character device. */
unsigned int ext_vma_chardev_major(struct vm_area_struct *vma)
{
	struct inode *inode = vma->vm_file ? file_inode(vma->vm_file) : NULL;

	return inode && S_ISCHR(inode->i_mode) ? imajor(inode) : 0;
}

void ext_vma_set_noncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

void ext_vma_set_writecombine(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
}
