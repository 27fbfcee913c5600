// SPDX-License-Identifier: GPL-2.0
/*
 * A client whose memory is RAM of which any number of MRs can be. A process maps it from
 * /dev/bench_memory, whose ioctls invalidate regions, unregister the client and export dma-bufs.
 * A mapping of one page is a page with a struct page. A larger mapping is for registration alone: its
 * memory has no struct pages, and is the same 64 KiB again and again, so that no two entries of a
 * table join. entries=N: of so many entries at most. invalidates=0: the client does without.
 *
 * Without an IOMMU the tables of all regions are parts of one table, as of a driver that keeps a
 * table of its memory. An importer of a dma-buf gets a copy. Behind an IOMMU each region maps its
 * entries.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/iommu.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/peer_mem.h>

#include "bench_memory.h"

#define ENTRY SZ_64K

struct region {
	struct list_head node;
	u64 ticket;
	/* Of a mapping of more than a page. */
	unsigned int entries;
};

static unsigned int entries;
module_param(entries, uint, 0444);
MODULE_PARM_DESC(entries, "entries of a table without struct pages, at most");

static bool invalidates = true;
module_param(invalidates, bool, 0444);
MODULE_PARM_DESC(invalidates, "the client requires invalidation");

/* ENTRY bytes. */
static struct page *page;
/* entries times the page. */
static struct sg_table list;
static void *handle;
static invalidate_peer_memory invalidate;
/* The regions that are neither invalidated nor put, the newest first. */
static LIST_HEAD(regions);
static DEFINE_MUTEX(regions_lock);
/* Serializes the ioctls, except invalidations. */
static DECLARE_RWSEM(control_lock);

static const struct vm_operations_struct vm_ops = { };

static int map(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_ops = &vm_ops;
	if (vma_pages(vma) == 1)
		return remap_pfn_range(vma, vma->vm_start, page_to_pfn(page), PAGE_SIZE,
				       vma->vm_page_prot);
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

static int acquire(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	unsigned long from = ALIGN_DOWN(addr, ENTRY), pages = 0;
	struct vm_area_struct *vma;
	struct region *region;

	if (!current->mm)
		return 0;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	if (vma && vma->vm_ops == &vm_ops && size <= vma->vm_end - addr)
		pages = vma_pages(vma);
	mmap_read_unlock(current->mm);
	if (!pages || DIV_ROUND_UP(addr + size - from, ENTRY) > max(entries, 1))
		return 0;
	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return -ENOMEM;
	INIT_LIST_HEAD(&region->node);
	if (pages > 1)
		region->entries = DIV_ROUND_UP(addr + size - from, ENTRY);
	*context = region;
	return 1;
}

static unsigned long get_page_size(void *context)
{
	struct region *region = context;

	return region->entries ? ENTRY : PAGE_SIZE;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	struct region *region = context;
	int err;

	if (!region->entries) {
		err = sg_alloc_table(table, 1, GFP_KERNEL_ACCOUNT);
		if (err)
			return err;
		sg_set_page(table->sgl, page, PAGE_SIZE, 0);
	}
	region->ticket = core_context;
	mutex_lock(&regions_lock);
	list_add(&region->node, &regions);
	mutex_unlock(&regions_lock);
	return 0;
}

/* Unmaps the first @mapped entries and frees the table. */
static void unmap_entries(struct sg_table *table, struct device *dev, unsigned int mapped)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sg(table->sgl, sg, mapped, i)
		dma_unmap_page(dev, sg_dma_address(sg), ENTRY, DMA_BIDIRECTIONAL);
	sg_free_table(table);
}

static int map_entries(struct sg_table *table, struct device *dev, unsigned int n)
{
	struct scatterlist *sg;
	unsigned int i;
	int err = sg_alloc_table(table, n, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);

	if (err)
		return err;
	for_each_sg(table->sgl, sg, n, i) {
		sg_dma_address(sg) = dma_map_page(dev, page, 0, ENTRY, DMA_BIDIRECTIONAL);
		if (dma_mapping_error(dev, sg_dma_address(sg))) {
			unmap_entries(table, dev, i);
			return -ENOMEM;
		}
		sg_dma_len(sg) = ENTRY;
	}
	return 0;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	struct region *region = context;
	int err = 0;

	if (!region->entries)
		err = dma_map_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
	else if (device_iommu_mapped(dev))
		err = map_entries(table, dev, region->entries);
	else
		*table = (struct sg_table) { list.sgl, region->entries, list.orig_nents };
	*nmap = err ? 0 : table->nents;
	return err;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	struct region *region = context;

	if (!region->entries)
		dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
	else if (device_iommu_mapped(dev))
		unmap_entries(table, dev, table->nents);
	return 0;
}

static void put_pages(struct sg_table *table, void *context)
{
	struct region *region = context;

	if (!region->entries)
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
	.get_page_size = get_page_size,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
	.release = release,
};

static int register_client(void)
{
	if (handle)
		return -EBUSY;
	handle = ib_register_peer_memory_client(&client, invalidates ? &invalidate : NULL);
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

/* An importer gets a table of its own: importers change the ends. */
static struct sg_table *map_dma_buf(struct dma_buf_attachment *attachment,
				    enum dma_data_direction direction)
{
	unsigned int i, n = attachment->dmabuf->size / ENTRY;
	struct scatterlist *to, *from = list.sgl;
	struct sg_table *table;
	int err;

	if (device_iommu_mapped(attachment->dev))
		return ERR_PTR(-EOPNOTSUPP);
	table = kmalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);
	if (!table)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table(table, n, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (err) {
		kfree(table);
		return ERR_PTR(err);
	}
	for_each_sg(table->sgl, to, n, i) {
		sg_dma_address(to) = sg_dma_address(from);
		sg_dma_len(to) = sg_dma_len(from);
		from = sg_next(from);
	}
	return table;
}

static void unmap_dma_buf(struct dma_buf_attachment *attachment, struct sg_table *table,
			  enum dma_data_direction direction)
{
	sg_free_table(table);
	kfree(table);
}

static void release_dma_buf(struct dma_buf *buf)
{
}

static const struct dma_buf_ops buf_ops = {
	.map_dma_buf = map_dma_buf,
	.unmap_dma_buf = unmap_dma_buf,
	.release = release_dma_buf,
};

/* Returns a file descriptor. */
static long export(unsigned long n)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	int fd;

	if (!n || n > entries)
		return -EINVAL;
	info.ops = &buf_ops;
	/* A dma-buf must have some. */
	info.priv = &list;
	info.size = n * ENTRY;
	info.flags = O_RDWR;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

static long control(struct file *file, unsigned int cmd, unsigned long arg)
{
	long ret = -ENOTTY;

	if (cmd == BENCH_MEMORY_INVALIDATE) {
		down_read(&control_lock);
		ret = invalidate_regions(arg);
		up_read(&control_lock);
		return ret;
	}
	down_write(&control_lock);
	switch (cmd) {
	case BENCH_MEMORY_UNREGISTER:
		ret = unregister_client();
		break;
	case BENCH_MEMORY_REGISTER:
		ret = register_client();
		break;
	case BENCH_MEMORY_EXPORT:
		ret = export(arg);
		break;
	}
	up_write(&control_lock);
	return ret;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.mmap = map,
	/* An MR of large pages. */
	.get_unmapped_area = thp_get_unmapped_area,
	.unlocked_ioctl = control,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "bench_memory",
	.mode = 0600,
	.fops = &fops,
};

static int make_list(void)
{
	struct scatterlist *sg;
	unsigned int i;
	int err;

	if (!entries)
		return 0;
	err = sg_alloc_table(&list, entries, GFP_KERNEL);
	if (err)
		return err;
	for_each_sg(list.sgl, sg, entries, i) {
		sg_dma_address(sg) = page_to_phys(page);
		sg_dma_len(sg) = ENTRY;
	}
	return 0;
}

static int __init bench_memory_init(void)
{
	int err;

	page = alloc_pages(GFP_KERNEL | __GFP_ZERO, get_order(ENTRY));
	if (!page)
		return -ENOMEM;
	err = make_list();
	if (err)
		goto free_page;
	err = register_client();
	if (err)
		goto free_list;
	err = misc_register(&misc);
	if (err)
		goto unregister;
	return 0;

unregister:
	unregister_client();
free_list:
	sg_free_table(&list);
free_page:
	__free_pages(page, get_order(ENTRY));
	return err;
}

static void __exit bench_memory_exit(void)
{
	misc_deregister(&misc);
	unregister_client();
	sg_free_table(&list);
	__free_pages(page, get_order(ENTRY));
}

module_init(bench_memory_init);
module_exit(bench_memory_exit);
MODULE_IMPORT_NS("DMA_BUF");
MODULE_DESCRIPTION("Memory for any number of MRs, for measurements");
MODULE_LICENSE("GPL");
