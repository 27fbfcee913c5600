// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The callbacks of a client whose memory has no struct pages
 *
 * get_pages leaves the table empty, and dma_map makes one of DMA addresses. The page of an
 * entry is NULL, so nothing but sg_dma_address() and sg_dma_len() may be read.
 *
 * A DMA address is valid for one adapter:
 * - through the host bridge it is what the DMA API makes of the physical address: with an
 *   IOMMU an IOVA, which dma_unmap unmaps; else the physical address itself;
 * - if only PCI bridges without ACS redirection lie between the two, the adapter can use the
 *   address on the bus (pci_bus_address()), and the transfer does not leave the switch. That
 *   is an optimization for drivers that know their topology: this client leaves it out.
 *
 * An adapter takes no longer entries than dma_get_max_seg_size().
 *
 * Software RDMA copies through struct pages: the core does not offer it this memory.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "mmio_client.h"

/* One range, from acquire to release: client_context of the callbacks. */
struct mmio_region {
	struct mmio_device *dev;
	u64 offset;			/* in the BAR, of the first page */
	size_t size;			/* whole pages */
	bool writable;			/* the mapping is writable */
	u64 core_context;
	struct list_head node;		/* in mmio_device.pinned, or empty */
};

static void *mmio_handle;
static invalidate_peer_memory mmio_invalidate;

static int mmio_acquire(unsigned long addr, size_t size, void *private_data, char *name,
			void **client_context)
{
	struct mm_struct *mm = current->mm;
	struct mmio_region found = { }, *region;
	struct vm_area_struct *vma;

	/* A kernel thread has no address space. */
	if (!mm)
		return 0;
	/* The core passes the bits on that the CPU ignores, as the process has set them. */
	addr = untagged_addr(addr);
	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	if (vma && size <= vma->vm_end - addr)
		found.dev = mmio_device_of(vma);
	if (found.dev) {
		/* The mapping holds a reference as well, but only while it exists. */
		kref_get(&found.dev->ref);
		found.offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) +
			       ((addr & PAGE_MASK) - vma->vm_start);
		found.size = PAGE_ALIGN(offset_in_page(addr) + size);
		found.writable = vma->vm_flags & VM_WRITE;
	}
	mmap_read_unlock(mm);
	if (!found.dev)
		return 0;

	region = kmemdup(&found, sizeof(found), GFP_KERNEL_ACCOUNT);
	if (!region) {
		kref_put(&found.dev->ref, mmio_device_free);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&region->node);
	*client_context = region;
	return 1;
}

/* Keeps the memory until put_pages. A GPU driver pins its pages in video memory here. */
static int mmio_get_pages(unsigned long addr, size_t size, int write, int force,
			  struct sg_table *sg_head, void *client_context, u64 core_context)
{
	struct mmio_region *region = client_context;
	struct mmio_device *dev = region->dev;
	int ret = 0;

	/* Any MR may be written, whatever force is: cores differ in its meaning. */
	if (!region->writable)
		return -EFAULT;
	mutex_lock(&dev->lock);
	if (dev->gone) {
		ret = -ENODEV;
	} else {
		region->core_context = core_context;
		list_add_tail(&region->node, &dev->pinned);
		dev->in_use++;
	}
	mutex_unlock(&dev->lock);
	return ret;
}

static unsigned long mmio_get_page_size(void *client_context)
{
	return PAGE_SIZE;
}

/* Unmaps the first @mapped entries and frees the table. */
static void mmio_unmap(struct sg_table *table, struct device *dma_device, unsigned int mapped)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sg(table->sgl, sg, mapped, i)
		dma_unmap_resource(dma_device, sg_dma_address(sg), sg_dma_len(sg),
				   DMA_BIDIRECTIONAL, 0);
	sg_free_table(table);
}

/*
 * dma_device is the adapter's. The memory cannot go meanwhile: it goes after the region is
 * invalidated, which waits for this callback.
 */
static int mmio_dma_map(struct sg_table *sg_head, void *client_context,
			struct device *dma_device, int dmasync, int *nmap)
{
	struct mmio_region *region = client_context;
	size_t most = min_t(size_t, dma_get_max_seg_size(dma_device), SZ_1G) & PAGE_MASK;
	phys_addr_t phys = region->dev->start + region->offset;
	size_t left = region->size, length;
	struct scatterlist *sg;
	unsigned int i;
	int ret;

	/* Is there a way at all? Not verbose: users would fill the log, and the rate is not limited. */
	if (pci_p2pdma_distance(region->dev->pdev, dma_device, false) < 0) {
		dev_warn_ratelimited(&region->dev->pdev->dev, "no peer-to-peer DMA with %s\n",
				     dev_name(dma_device));
		return -EREMOTEIO;
	}
	if (!most)
		return -EINVAL;
	ret = sg_alloc_table(sg_head, DIV_ROUND_UP(left, most), GFP_KERNEL_ACCOUNT);
	if (ret)
		return ret;
	for_each_sg(sg_head->sgl, sg, sg_head->nents, i) {
		length = min(left, most);
		sg_dma_address(sg) = dma_map_resource(dma_device, phys, length,
						      DMA_BIDIRECTIONAL, 0);
		if (dma_mapping_error(dma_device, sg_dma_address(sg))) {
			mmio_unmap(sg_head, dma_device, i);
			return -EIO;
		}
		sg_dma_len(sg) = length;
		phys += length;
		left -= length;
	}
	*nmap = sg_head->nents;
	return 0;
}

static int mmio_dma_unmap(struct sg_table *sg_head, void *client_context,
			  struct device *dma_device)
{
	mmio_unmap(sg_head, dma_device, sg_head->nents);
	return 0;
}

/* May run in any task, also inside the call of the invalidate function. */
static void mmio_put_pages(struct sg_table *sg_head, void *client_context)
{
	struct mmio_region *region = client_context;
	struct mmio_device *dev = region->dev;

	mutex_lock(&dev->lock);
	list_del_init(&region->node);
	if (!--dev->in_use)
		wake_up_all(&dev->idle);
	mutex_unlock(&dev->lock);
}

static void mmio_release(void *client_context)
{
	struct mmio_region *region = client_context;

	kref_put(&region->dev->ref, mmio_device_free);
	kfree(region);
}

static const struct peer_memory_client mmio_client = {
	.name = "mmio_client_sample",
	.version = "1.0",
	.acquire = mmio_acquire,
	.get_pages = mmio_get_pages,
	.get_page_size = mmio_get_page_size,
	.dma_map = mmio_dma_map,
	.dma_unmap = mmio_dma_unmap,
	.put_pages = mmio_put_pages,
	.release = mmio_release,
};

void mmio_client_remove(struct mmio_device *dev)
{
	struct mmio_region *region;
	u64 core_context;

	mutex_lock(&dev->lock);
	WRITE_ONCE(dev->gone, true);
	while ((region = list_first_entry_or_null(&dev->pinned, struct mmio_region, node))) {
		list_del_init(&region->node);
		core_context = region->core_context;
		mutex_unlock(&dev->lock);
		/* Revokes the MR, and calls dma_unmap and put_pages. */
		mmio_invalidate(mmio_handle, core_context);
		mutex_lock(&dev->lock);
	}
	mutex_unlock(&dev->lock);
	/* Deregistrations that began earlier call put_pages in their own tasks. */
	wait_event(dev->idle, !READ_ONCE(dev->in_use));
}

int mmio_client_register(void)
{
	int ret = optional_register(&mmio_client, &mmio_invalidate, &mmio_handle);

	/* Without ib_peer_mem the driver works for the CPU. */
	if (ret == -ENOENT)
		pr_info("ib_peer_mem is not loaded: no RDMA to the memory\n");
	return ret == -ENOENT ? 0 : ret;
}

void mmio_client_unregister(void)
{
	if (mmio_handle)
		optional_unregister(mmio_handle);
}
