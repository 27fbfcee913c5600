// SPDX-License-Identifier: GPL-2.0
/*
 * caching_test - how a mapping is cached, which a process cannot see
 *
 * A process writes an address of its own to the parameter address, and then reads from it
 * "uncached", "write-combining" or "other".
 */
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/module.h>

static const char *caching = "other";

static const char *caching_of(struct vm_area_struct *vma)
{
	pgprot_t all = vm_get_page_prot(vma->vm_flags);
	u64 here = pgprot_val(vma->vm_page_prot);

	if (here == pgprot_val(pgprot_writecombine(all)))
		return "write-combining";
	return here == pgprot_val(pgprot_noncached(all)) ? "uncached" : "other";
}

static int set_address(const char *value, const struct kernel_param *kp)
{
	struct vm_area_struct *vma;
	unsigned long address;
	int ret = kstrtoul(value, 0, &address);

	if (ret)
		return ret;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, address);
	caching = vma ? caching_of(vma) : "other";
	mmap_read_unlock(current->mm);
	return vma ? 0 : -EFAULT;
}

static int get_address(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", caching);
}

static const struct kernel_param_ops address_ops = { .set = set_address, .get = get_address };
module_param_cb(address, &address_ops, NULL, 0644);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Shows how a mapping is cached");
