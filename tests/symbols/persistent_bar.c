// SPDX-License-Identifier: GPL-2.0
/*
 * A client for BAR 2 of one PCI function, bdf=DOMAIN:BUS:DEVICE.FUNCTION, that never
 * invalidates: it can serve queues and doorbell records, which no driver gives up while
 * they are in use. A process maps the BAR from /dev/persistent_bar. The function must have
 * no driver, and must not be removed while the module is loaded.
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include <rdma/ib_peer_mem.h>

#define BAR 2

static char *bdf = "";
module_param(bdf, charp, 0444);
MODULE_PARM_DESC(bdf, "the PCI function");

static struct pci_dev *function;
static void *handle;

struct region {
	phys_addr_t start;
	size_t length;
};

static const struct vm_operations_struct vm_ops = { };

static int map(struct file *file, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* Programs copy at any offset, to which an uncached mapping objects on other architectures. */
	vma->vm_page_prot = IS_ENABLED(CONFIG_X86) ? pgprot_noncached(vma->vm_page_prot) :
						     pgprot_writecombine(vma->vm_page_prot);
	vma->vm_ops = &vm_ops;
	return vm_iomap_memory(vma, pci_resource_start(function, BAR),
			       pci_resource_len(function, BAR));
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.mmap = map,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "persistent_bar",
	.fops = &fops,
};

static int acquire(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	unsigned long first = addr & PAGE_MASK, end = PAGE_ALIGN(addr + size);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct region *region;
	u64 offset = 0;
	bool claimed;

	if (!mm)
		return 0;
	mmap_read_lock(mm);
	vma = vma_lookup(mm, first);
	claimed = vma && vma->vm_ops == &vm_ops && end <= vma->vm_end;
	if (claimed)
		offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + first - vma->vm_start;
	mmap_read_unlock(mm);
	if (!claimed)
		return 0;
	region = kmalloc(sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	region->start = pci_resource_start(function, BAR) + offset;
	region->length = end - first;
	*context = region;
	return 1;
}

/* The memory has no struct pages: dma_map makes the table. */
static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	return 0;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	struct region *region = context;
	dma_addr_t at;
	int ret;

	ret = sg_alloc_table(table, 1, GFP_KERNEL);
	if (ret)
		return ret;
	at = dma_map_resource(dev, region->start, region->length, DMA_BIDIRECTIONAL, 0);
	if (dma_mapping_error(dev, at)) {
		sg_free_table(table);
		return -EIO;
	}
	sg_dma_address(table->sgl) = at;
	sg_dma_len(table->sgl) = region->length;
	*nmap = 1;
	return 0;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	struct region *region = context;

	dma_unmap_resource(dev, sg_dma_address(table->sgl), region->length, DMA_BIDIRECTIONAL, 0);
	sg_free_table(table);
	return 0;
}

static void put_pages(struct sg_table *table, void *context)
{
}

static void release(void *context)
{
	kfree(context);
}

static const struct peer_memory_client client = {
	.name = "persistent_bar",
	.version = "1",
	.acquire = acquire,
	.get_pages = get_pages,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
	.release = release,
};

static int find_function(void)
{
	unsigned int domain, bus, slot, func;

	if (sscanf(bdf, "%x:%x:%x.%u", &domain, &bus, &slot, &func) != 4)
		return -EINVAL;
	function = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
	return function ? 0 : -ENODEV;
}

static int __init persistent_bar_init(void)
{
	int ret = find_function();

	if (ret)
		return ret;
	ret = pci_enable_device_mem(function);
	if (ret)
		goto err_put;
	ret = pci_request_region(function, BAR, KBUILD_MODNAME);
	if (ret)
		goto err_disable;
	ret = -EINVAL;
	handle = ib_register_peer_memory_client(&client, NULL);
	if (!handle)
		goto err_region;
	ret = misc_register(&misc);
	if (!ret)
		return 0;
	ib_unregister_peer_memory_client(handle);
err_region:
	pci_release_region(function, BAR);
err_disable:
	pci_disable_device(function);
err_put:
	pci_dev_put(function);
	return ret;
}

static void __exit persistent_bar_exit(void)
{
	misc_deregister(&misc);
	/* Waits for the regions that are left. */
	ib_unregister_peer_memory_client(handle);
	pci_release_region(function, BAR);
	pci_disable_device(function);
	pci_dev_put(function);
}

module_init(persistent_bar_init);
module_exit(persistent_bar_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A client for a PCI BAR that never invalidates");
