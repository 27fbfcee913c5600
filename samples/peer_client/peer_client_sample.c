// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * peer_client_sample - a peer memory client, to copy from (Documentation/client-api.rst)
 *
 * Its memory is RAM, so that it runs on any machine. A process maps it from
 * /dev/peer_client_sample and registers it with ibv_reg_mr(). A write to
 * /sys/kernel/debug/peer_client_sample/invalidate revokes all memory regions on the pages, as a
 * driver does when its device is removed or its memory moves.
 *
 * get_pages is specific to this memory. The rest is common to all clients.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include <rdma/ib_peer_mem.h>

#define SAMPLE_PAGES	(SZ_1M >> PAGE_SHIFT)

/*
 * Some drivers pin an imported dma-buf until the user deregisters it: their MRs cannot
 * be revoked. They serve only clients that never invalidate.
 */
static bool persistent;
module_param(persistent, bool, 0444);
MODULE_PARM_DESC(persistent, "never invalidate: unloading waits for the users (default: N)");

static struct page *sample_pages[SAMPLE_PAGES];

/* One range, from acquire to release: client_context of the callbacks. */
struct sample_region {
	unsigned long first, count;	/* in sample_pages */
	bool writable;			/* the mapping is writable */
	u64 core_context;		/* the core's name of the region */
	struct list_head node;		/* in sample_pinned, or empty */
};

/*
 * The regions between get_pages and put_pages that are not invalidated. get_pages and
 * put_pages take the mutex. It must not be held across the invalidate function, which
 * waits for callbacks and calls put_pages in the same task.
 */
static DEFINE_MUTEX(sample_lock);
static LIST_HEAD(sample_pinned);
static bool sample_invalidating;		/* get_pages fails */
static unsigned int sample_in_use;	/* regions between get_pages and put_pages */
static DECLARE_WAIT_QUEUE_HEAD(sample_idle);

/* The results of ib_register_peer_memory_client(). */
static void *sample_handle;
static invalidate_peer_memory sample_invalidate;

/* --- mapping of the memory by processes --- */

/* Identifies a mapping in acquire. */
static const struct vm_operations_struct sample_vm_ops = { };

static int sample_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long i, first = vma->vm_pgoff, count = vma_pages(vma);
	int ret;

	if (first > SAMPLE_PAGES || count > SAMPLE_PAGES - first)
		return -ENXIO;
	/* A write to a private mapping would copy the page. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		ret = remap_pfn_range(vma, vma->vm_start + i * PAGE_SIZE,
				      page_to_pfn(sample_pages[first + i]),
				      PAGE_SIZE, vma->vm_page_prot);
		if (ret)
			return ret;
	}
	vma->vm_ops = &sample_vm_ops;
	return 0;
}

static const struct file_operations sample_fops = {
	.owner = THIS_MODULE,
	.mmap = sample_mmap,
};

static struct miscdevice sample_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peer_client_sample",
	.fops = &sample_fops,
};

/* --- the callbacks, in call order --- */

/*
 * Returns 1 if all of [addr, addr + size) in the calling process is memory of this client: get_pages
 * or release follows. Called for registrations of any memory: reject other memory quickly.
 */
static int sample_acquire(unsigned long addr, size_t size, void *private_data,
			  char *name, void **client_context)
{
	struct mm_struct *mm = current->mm;
	struct sample_region found, *region;
	struct vm_area_struct *vma;
	bool claimed = false;

	/* A kernel thread has no address space. */
	if (!mm)
		return 0;

	/* The core passes the bits on that the CPU ignores, as the process has set them. */
	addr = untagged_addr(addr);
	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	if (vma && vma->vm_ops == &sample_vm_ops && size <= vma->vm_end - addr) {
		found.first = vma->vm_pgoff + ((addr - vma->vm_start) >> PAGE_SHIFT);
		found.count = DIV_ROUND_UP(offset_in_page(addr) + size, PAGE_SIZE);
		found.writable = vma->vm_flags & VM_WRITE;
		claimed = true;
	}
	mmap_read_unlock(mm);
	if (!claimed)
		return 0;

	region = kmemdup(&found, sizeof(found), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	INIT_LIST_HEAD(&region->node);
	*client_context = region;
	return 1;
}

/*
 * Pins the range until put_pages, and fills sg_head from the start of the page of addr on. Publish
 * core_context last: another task may invalidate the region as soon as it sees that.
 */
static int sample_get_pages(unsigned long addr, size_t size, int write, int force,
			    struct sg_table *sg_head, void *client_context,
			    u64 core_context)
{
	struct sample_region *region = client_context;
	unsigned long i;
	int ret;

	/* Any MR may be written, whatever force is: cores differ in its meaning. */
	if (!region->writable)
		return -EFAULT;

	ret = sg_alloc_table_from_pages(sg_head, sample_pages + region->first,
					region->count, 0,
					region->count << PAGE_SHIFT, GFP_KERNEL);
	if (ret)
		return ret;

	mutex_lock(&sample_lock);
	if (sample_invalidating) {
		mutex_unlock(&sample_lock);
		sg_free_table(sg_head);
		return -ENODEV;
	}
	for (i = 0; i < region->count; i++)
		get_page(sample_pages[region->first + i]);
	region->core_context = core_context;
	list_add_tail(&region->node, &sample_pinned);
	sample_in_use++;
	mutex_unlock(&sample_lock);
	return 0;
}

/* Returns the page size of the table of get_pages and dma_map. */
static unsigned long sample_get_page_size(void *client_context)
{
	return PAGE_SIZE;
}

/*
 * Maps the range for dma_device, the adapter's device. Not called for software adapters, which use
 * the struct pages. Do not take a lock here that is held while invalidating.
 */
static int sample_dma_map(struct sg_table *sg_head, void *client_context,
			  struct device *dma_device, int dmasync, int *nmap)
{
	int ret = dma_map_sgtable(dma_device, sg_head, DMA_BIDIRECTIONAL, 0);

	if (ret)
		return ret;
	*nmap = sg_head->nents;
	return 0;
}

static int sample_dma_unmap(struct sg_table *sg_head, void *client_context,
			    struct device *dma_device)
{
	dma_unmap_sgtable(dma_device, sg_head, DMA_BIDIRECTIONAL, 0);
	return 0;
}

/* May run in any task, also inside the call of the invalidate function. */
static void sample_put_pages(struct sg_table *sg_head, void *client_context)
{
	struct sample_region *region = client_context;
	unsigned long i;

	for (i = 0; i < region->count; i++)
		put_page(sample_pages[region->first + i]);
	sg_free_table(sg_head);

	mutex_lock(&sample_lock);
	list_del_init(&region->node);
	sample_in_use--;
	if (!sample_in_use)
		wake_up_all(&sample_idle);
	mutex_unlock(&sample_lock);
}

static void sample_release(void *client_context)
{
	kfree(client_context);
}

/*
 * A version with a last byte other than 0 marks the extended structure. The core can also pin RAM
 * without a client: PEER_MEM_MEMORY_PINNABLE asks it to call acquire first.
 */
static const struct peer_memory_client_ex sample_client = {
	.client = {
		.name = "peer_client_sample",
		.version = { '1', '.', '0', [IB_PEER_MEMORY_VER_MAX - 1] = 1 },
		.acquire = sample_acquire,
		.get_pages = sample_get_pages,
		.get_page_size = sample_get_page_size,
		.dma_map = sample_dma_map,
		.dma_unmap = sample_dma_unmap,
		.put_pages = sample_put_pages,
		.release = sample_release,
	},
	.ex_size = sizeof(sample_client),
	.flags = PEER_MEM_MEMORY_PINNABLE,
};

/* --- invalidation --- */

/* On return no adapter accesses the memory, and no page of it is pinned. */
static void sample_invalidate_all(void)
{
	struct sample_region *region;
	u64 core_context;

	mutex_lock(&sample_lock);
	/* Fail new registrations, or this loop might not end. */
	sample_invalidating = true;
	while ((region = list_first_entry_or_null(&sample_pinned, struct sample_region,
						  node))) {
		list_del_init(&region->node);
		core_context = region->core_context;
		mutex_unlock(&sample_lock);
		/* Revokes the MR and calls put_pages, unless another task has released the region. */
		sample_invalidate(sample_handle, core_context);
		mutex_lock(&sample_lock);
	}
	mutex_unlock(&sample_lock);

	/* Deregistrations that began earlier call put_pages in their own tasks. */
	wait_event(sample_idle, !READ_ONCE(sample_in_use));

	mutex_lock(&sample_lock);
	sample_invalidating = false;
	mutex_unlock(&sample_lock);
}

static ssize_t sample_invalidate_write(struct file *file, const char __user *buf,
				      size_t count, loff_t *ppos)
{
	static DEFINE_MUTEX(one_at_a_time);

	mutex_lock(&one_at_a_time);
	sample_invalidate_all();
	mutex_unlock(&one_at_a_time);
	return count;
}

static const struct file_operations sample_invalidate_fops = {
	.owner = THIS_MODULE,
	.write = sample_invalidate_write,
};

static struct dentry *sample_debugfs;

/* --- module load and unload --- */

static void sample_free_pages(void)
{
	unsigned long i;

	for (i = 0; i < SAMPLE_PAGES && sample_pages[i]; i++)
		__free_page(sample_pages[i]);
}

static int __init sample_init(void)
{
	unsigned long i;
	int ret = -ENOMEM;

	for (i = 0; i < SAMPLE_PAGES; i++) {
		sample_pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!sample_pages[i])
			goto err_pages;
	}

	/*
	 * Callbacks may run from here on. With the second argument the client serves only devices
	 * whose MRs can be revoked. On failure the kernel log has the cause.
	 */
	sample_handle = ib_register_peer_memory_client(&sample_client.client,
						       persistent ? NULL : &sample_invalidate);
	if (!sample_handle) {
		ret = -EINVAL;
		goto err_pages;
	}

	/* Processes can map and register the memory from here on. */
	ret = misc_register(&sample_misc);
	if (ret)
		goto err_client;

	sample_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	if (!persistent)
		debugfs_create_file("invalidate", 0200, sample_debugfs, NULL,
				    &sample_invalidate_fops);
	return 0;

err_client:
	ib_unregister_peer_memory_client(sample_handle);
err_pages:
	sample_free_pages();
	return ret;
}

static void __exit sample_exit(void)
{
	/* Waits for a running write. */
	debugfs_remove(sample_debugfs);
	misc_deregister(&sample_misc);
	/*
	 * Memory regions do not pin this module: revokes those that are left, or waits for them with
	 * persistent=1. No callback runs after it returns.
	 */
	ib_unregister_peer_memory_client(sample_handle);
	sample_free_pages();
}

module_init(sample_init);
module_exit(sample_exit);

MODULE_DESCRIPTION("A peer memory client, to copy from");
MODULE_LICENSE("Dual BSD/GPL");
