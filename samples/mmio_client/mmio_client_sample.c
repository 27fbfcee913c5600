// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * mmio_client_sample - a peer memory client for memory without struct pages, to copy from
 *
 * The usual case of a GPU or an FPGA: a driver maps a BAR to processes by page frame numbers,
 * and the kernel has no struct pages for it. The driver is the end of this file, as small as can be.
 * The callbacks of the client make its memory usable for RDMA, without a hard dependency.
 *
 * It has no ids: bind a function by its driver_override. The device node is
 * /dev/mmio_client_BDF; a process maps it and registers the memory with ibv_reg_mr().
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/anon_inodes.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include <rdma/ib_peer_mem.h>

/* A PCI function, and its BAR that is memory. */
struct mmio_device {
	struct kref ref;		/* of the driver, each open file, and each region */
	struct pci_dev *pdev;
	phys_addr_t start;
	size_t size;
	struct miscdevice misc;
	char name[32];
	struct file *space;		/* anonymous; all mappings are in its address space */

	/*
	 * get_pages, put_pages and page faults take it, the latter under mmap_lock; it is not held
	 * while a region is invalidated.
	 */
	struct mutex lock;
	bool gone;			/* get_pages and page faults fail */
	struct list_head pinned;	/* regions between get_pages and an invalidation */
	unsigned int in_use;		/* regions between get_pages and put_pages */
	wait_queue_head_t idle;
};

/* Identifies a mapping in acquire. */
static const struct vm_operations_struct mmio_vm_ops;

static void mmio_device_free(struct kref *ref)
{
	struct mmio_device *dev = container_of(ref, struct mmio_device, ref);

	fput(dev->space);
	pci_dev_put(dev->pdev);
	kfree(dev);
}

/* --- an optional dependency on ib_peer_mem; if that is loaded later, load this module again --- */

MODULE_SOFTDEP("pre: ib_peer_mem");

/* Returns -ENOENT without ib_peer_mem, and -EINVAL if it refuses the client. */
static int optional_register(const struct peer_memory_client *client,
			     invalidate_peer_memory *invalidate, void **handle)
{
	typeof(&ib_register_peer_memory_client) do_register;

	do_register = symbol_get(ib_register_peer_memory_client);
	if (!do_register)
		return -ENOENT;
	*handle = do_register(client, invalidate);
	if (*handle)
		return 0;
	symbol_put(ib_register_peer_memory_client);
	return -EINVAL;
}

static void optional_unregister(void *handle)
{
	typeof(&ib_unregister_peer_memory_client) unregister;

	unregister = symbol_get(ib_unregister_peer_memory_client);
	/* It is there: optional_register() has pinned the module. */
	if (!WARN_ON(!unregister)) {
		unregister(handle);
		symbol_put(ib_unregister_peer_memory_client);
	}
	symbol_put(ib_register_peer_memory_client);
}

/*
 * --- the callbacks ---
 *
 * get_pages leaves the table empty, and dma_map makes one of DMA addresses, each valid for one
 * adapter (Documentation/client-api.rst). The page of an entry is NULL, so nothing but
 * sg_dma_address() and sg_dma_len() may be read. Adapters below the same switch could use
 * pci_bus_address(): that is for drivers that know their topology.
 */

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
	if (vma && vma->vm_ops == &mmio_vm_ops && size <= vma->vm_end - addr)
		found.dev = vma->vm_private_data;
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

/* Revokes the MRs on a device that goes. On return no adapter accesses it. */
static void mmio_client_remove(struct mmio_device *dev)
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

static int mmio_client_register(void)
{
	int ret = optional_register(&mmio_client, &mmio_invalidate, &mmio_handle);

	/* Without ib_peer_mem the driver works for the CPU. */
	if (ret == -ENOENT)
		pr_info("ib_peer_mem is not loaded: no RDMA to the memory\n");
	return ret == -ENOENT ? 0 : ret;
}

static void mmio_client_unregister(void)
{
	if (mmio_handle)
		optional_unregister(mmio_handle);
}

/* --- the driver --- */

static unsigned int bar = 2;
module_param(bar, uint, 0444);
MODULE_PARM_DESC(bar, "the BAR that is memory (default: 2)");

/*
 * Maps a page when a process accesses it. Not mmap: the VMA is not in the address space yet when
 * mmap is called, so a removal would not find the pages that mmap maps.
 */
static vm_fault_t mmio_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mmio_device *dev = vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	/* Not after the removal has emptied the mappings. */
	mutex_lock(&dev->lock);
	if (!dev->gone)
		ret = vmf_insert_pfn(vma, vmf->address, PHYS_PFN(dev->start) + vmf->pgoff);
	mutex_unlock(&dev->lock);
	return ret;
}

static const struct vm_operations_struct mmio_vm_ops = {
	.fault = mmio_fault,
};

/* misc_deregister() waits for this: the driver's reference is there. */
static int mmio_open(struct inode *inode, struct file *file)
{
	struct mmio_device *dev = container_of(file->private_data, struct mmio_device, misc);

	kref_get(&dev->ref);
	file->private_data = dev;
	/* Of all nodes of the device: each inode of a character device has its own. */
	file->f_mapping = dev->space->f_mapping;
	return 0;
}

static int mmio_close(struct inode *inode, struct file *file)
{
	struct mmio_device *dev = file->private_data;

	kref_put(&dev->ref, mmio_device_free);
	return 0;
}

static int mmio_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct mmio_device *dev = file->private_data;
	size_t pages = dev->size >> PAGE_SHIFT;

	/* The removal may begin at any time after this; then the first access raises SIGBUS. */
	if (READ_ONCE(dev->gone))
		return -ENODEV;
	if (vma->vm_pgoff > pages || vma_pages(vma) > pages - vma->vm_pgoff)
		return -ENXIO;
	/* A write to a private mapping would copy the page. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	/* MMIO is not encrypted where the CPU encrypts memory. */
	vma->vm_page_prot = pgprot_decrypted(pgprot_noncached(vma->vm_page_prot));
	vma->vm_ops = &mmio_vm_ops;
	vma->vm_private_data = dev;
	return 0;
}

static const struct file_operations mmio_fops = {
	.owner = THIS_MODULE,
	.open = mmio_open,
	.release = mmio_close,
	.mmap = mmio_mmap,
};

static int mmio_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct mmio_device *dev;
	int ret;

	if (bar >= PCI_STD_NUM_BARS || !(pci_resource_flags(pdev, bar) & IORESOURCE_MEM) ||
	    !PAGE_ALIGNED(pci_resource_start(pdev, bar)))
		return -ENODEV;
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pcim_request_region(pdev, bar, KBUILD_MODNAME);
	if (ret)
		return ret;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	/*
	 * The kernel may release a file long after the last fput(), so its operations are not in
	 * this module. No process gets the file, so any operations do.
	 */
	dev->space = anon_inode_create_getfile("[" KBUILD_MODNAME "]", &generic_ro_fops, NULL,
					       O_RDWR, NULL);
	if (IS_ERR(dev->space)) {
		ret = PTR_ERR(dev->space);
		kfree(dev);
		return ret;
	}
	kref_init(&dev->ref);
	dev->pdev = pci_dev_get(pdev);
	dev->start = pci_resource_start(pdev, bar);
	dev->size = pci_resource_len(pdev, bar) & PAGE_MASK;
	mutex_init(&dev->lock);
	INIT_LIST_HEAD(&dev->pinned);
	init_waitqueue_head(&dev->idle);
	snprintf(dev->name, sizeof(dev->name), "mmio_client_%s", pci_name(pdev));
	dev->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = dev->name,
		.fops = &mmio_fops,
	};
	ret = misc_register(&dev->misc);
	if (ret)
		kref_put(&dev->ref, mmio_device_free);
	else
		pci_set_drvdata(pdev, dev);
	return ret;
}

static void mmio_remove(struct pci_dev *pdev)
{
	struct mmio_device *dev = pci_get_drvdata(pdev);

	misc_deregister(&dev->misc);
	/* No adapter, then no process accesses the memory any more. */
	mmio_client_remove(dev);
	unmap_mapping_range(dev->space->f_mapping, 0, 0, 1);
	kref_put(&dev->ref, mmio_device_free);
}

/* Only by driver_override. */
static const struct pci_device_id mmio_ids[] = { { } };

/*
 * A driver for a machine with AER has an .err_handler: without one, the function keeps all functions below
 * the same port from recovering.
 */
static struct pci_driver mmio_driver = {
	.name = KBUILD_MODNAME,
	.id_table = mmio_ids,
	.probe = mmio_probe,
	.remove = mmio_remove,
};

static int __init mmio_init(void)
{
	int ret = mmio_client_register();

	if (ret)
		return ret;
	ret = pci_register_driver(&mmio_driver);
	if (ret)
		mmio_client_unregister();
	return ret;
}

static void __exit mmio_exit(void)
{
	pci_unregister_driver(&mmio_driver);
	mmio_client_unregister();
}

module_init(mmio_init);
module_exit(mmio_exit);

MODULE_DESCRIPTION("A peer memory client for memory without struct pages, to copy from");
MODULE_LICENSE("Dual BSD/GPL");
