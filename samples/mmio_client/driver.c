// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * mmio_client_sample - a peer memory client for memory without struct pages, to copy from
 *
 * The usual case of a GPU or an FPGA: a driver maps a BAR to processes by page frame numbers,
 * and the kernel has no struct pages for it. This file is such a driver, as small as can be;
 * client.c makes its memory usable for RDMA, optional.c without a hard dependency.
 *
 * It has no ids: bind a function by its driver_override. The device node is
 * /dev/mmio_client_BDF; a process maps it and registers the memory with ibv_reg_mr().
 */
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "mmio_client.h"

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

/* Identifies a mapping in acquire as well. */
static const struct vm_operations_struct mmio_vm_ops = {
	.fault = mmio_fault,
};

struct mmio_device *mmio_device_of(struct vm_area_struct *vma)
{
	return vma->vm_ops == &mmio_vm_ops ? vma->vm_private_data : NULL;
}

void mmio_device_free(struct kref *ref)
{
	struct mmio_device *dev = container_of(ref, struct mmio_device, ref);

	fput(dev->space);
	pci_dev_put(dev->pdev);
	kfree(dev);
}

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
