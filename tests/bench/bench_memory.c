// SPDX-License-Identifier: GPL-2.0
/*
 * A client whose memory is one page of RAM, which any number of MRs can be on. A process maps it
 * from /dev/bench_memory, whose ioctls invalidate regions and unregister the client.
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/peer_mem.h>

#include "bench_memory.h"

struct region {
	struct list_head node;
	u64 ticket;
};

static struct page *page;
static void *handle;
static invalidate_peer_memory invalidate;
/* The regions that are neither invalidated nor put, the newest first. */
static LIST_HEAD(regions);
static DEFINE_MUTEX(regions_lock);
/* Serializes the ioctls. */
static DEFINE_MUTEX(control_lock);

static const struct vm_operations_struct vm_ops = { };

static int map(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma_pages(vma) != 1 || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_ops = &vm_ops;
	return remap_pfn_range(vma, vma->vm_start, page_to_pfn(page), PAGE_SIZE,
			       vma->vm_page_prot);
}

static int acquire(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	struct vm_area_struct *vma;
	struct region *region;
	bool found;

	if (!current->mm)
		return 0;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	found = vma && vma->vm_ops == &vm_ops && size <= vma->vm_end - addr;
	mmap_read_unlock(current->mm);
	if (!found)
		return 0;
	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return -ENOMEM;
	INIT_LIST_HEAD(&region->node);
	*context = region;
	return 1;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	struct region *region = context;
	int err = sg_alloc_table(table, 1, GFP_KERNEL_ACCOUNT);

	if (err)
		return err;
	sg_set_page(table->sgl, page, PAGE_SIZE, 0);
	region->ticket = core_context;
	mutex_lock(&regions_lock);
	list_add(&region->node, &regions);
	mutex_unlock(&regions_lock);
	return 0;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	int err = dma_map_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);

	*nmap = err ? 0 : table->nents;
	return err;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
	return 0;
}

static void put_pages(struct sg_table *table, void *context)
{
	struct region *region = context;

	sg_free_table(table);
	mutex_lock(&regions_lock);
	list_del_init(&region->node);
	mutex_unlock(&regions_lock);
}

static void release(void *context)
{
	kfree(context);
}

static const struct peer_memory_client client = {
	.name = "bench_memory",
	.version = "1",
	.acquire = acquire,
	.get_pages = get_pages,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
	.release = release,
};

static int register_client(void)
{
	if (handle)
		return -EBUSY;
	handle = ib_register_peer_memory_client(&client, &invalidate);
	return handle ? 0 : -EINVAL;
}

static int unregister_client(void)
{
	if (!handle)
		return -ENODEV;
	ib_unregister_peer_memory_client(handle);
	handle = NULL;
	return 0;
}

/* Returns -ENOENT if there are less regions. */
static int invalidate_regions(unsigned long count)
{
	struct region *region;
	u64 ticket;

	for (; count && handle; count--) {
		mutex_lock(&regions_lock);
		region = list_first_entry_or_null(&regions, struct region, node);
		if (region) {
			list_del_init(&region->node);
			ticket = region->ticket;
		}
		mutex_unlock(&regions_lock);
		if (!region)
			break;
		invalidate(handle, ticket);
	}
	return count ? -ENOENT : 0;
}

static long control(struct file *file, unsigned int cmd, unsigned long arg)
{
	long ret = -ENOTTY;

	mutex_lock(&control_lock);
	switch (cmd) {
	case BENCH_MEMORY_INVALIDATE:
		ret = invalidate_regions(arg);
		break;
	case BENCH_MEMORY_UNREGISTER:
		ret = unregister_client();
		break;
	case BENCH_MEMORY_REGISTER:
		ret = register_client();
		break;
	}
	mutex_unlock(&control_lock);
	return ret;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.mmap = map,
	.unlocked_ioctl = control,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "bench_memory",
	.mode = 0600,
	.fops = &fops,
};

static int __init bench_memory_init(void)
{
	int err;

	page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	err = register_client();
	if (err)
		goto free_page;
	err = misc_register(&misc);
	if (err)
		goto unregister;
	return 0;

unregister:
	unregister_client();
free_page:
	__free_page(page);
	return err;
}

static void __exit bench_memory_exit(void)
{
	misc_deregister(&misc);
	unregister_client();
	__free_page(page);
}

module_init(bench_memory_init);
module_exit(bench_memory_exit);
MODULE_DESCRIPTION("A page of memory for any number of MRs, for measurements");
MODULE_LICENSE("GPL");
