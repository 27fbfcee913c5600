// SPDX-License-Identifier: GPL-2.0
/*
 * peer_client_sample - a peer memory client, to copy from
 *
 * A driver that owns memory which a CPU page walk cannot pin makes it usable for
 * RDMA by giving seven callbacks to ib_peer_mem. The memory here is a few pages
 * of RAM, so that this runs anywhere; a process maps them from
 * /dev/peer_client_sample and registers them with ibv_reg_mr() like its own.
 *
 * Writing to /sys/kernel/debug/peer_client_sample/take_away takes the pages away
 * from whoever has registered them, as a driver does whose device goes, or which
 * wants to move the memory.
 *
 * What is particular to this memory is in get_pages; the rest is what every
 * client has to do.
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
#include <linux/wait.h>

#include <rdma/ib_peer_mem.h>

#define SAMPLE_PAGES	(SZ_1M >> PAGE_SHIFT)

/*
 * Some adapters cannot be made to stop before the user deregisters: their drivers
 * pin what they import. They serve a client that promises not to need it.
 */
static bool persistent;
module_param(persistent, bool, 0444);
MODULE_PARM_DESC(persistent, "never take memory away: unloading waits for the users (default: N)");

static struct page *sample_pages[SAMPLE_PAGES];

/*
 * One range that is being registered, or is: from acquire to release. The core
 * hands it back to every callback as client_context.
 */
struct sample_region {
	unsigned long first, count;	/* of sample_pages */
	bool writable;			/* the mapping is */
	u64 core_context;		/* names the region to the core */
	struct list_head node;		/* in sample_pinned, or empty */
};

/*
 * The regions between get_pages and put_pages that have not been taken away. The
 * mutex is taken by get_pages and put_pages, and is never held across a call of
 * the invalidate function: that waits for callbacks of ours, and calls put_pages
 * itself, in this very task.
 */
static DEFINE_MUTEX(sample_lock);
static LIST_HEAD(sample_pinned);
static bool sample_going;		/* the memory is being taken away */
static unsigned int sample_in_use;	/* regions between get_pages and put_pages */
static DECLARE_WAIT_QUEUE_HEAD(sample_idle);

/* What ib_register_peer_memory_client() gives us. */
static void *sample_handle;
static invalidate_peer_memory sample_invalidate;

/* --- the memory: how a process maps it --- */

/* Only there to be recognised in acquire. */
static const struct vm_operations_struct sample_vm_ops = { };

static int sample_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long i, first = vma->vm_pgoff, count = vma_pages(vma);
	int ret;

	if (first > SAMPLE_PAGES || count > SAMPLE_PAGES - first)
		return -ENXIO;
	/* What is written to a private mapping is a copy. */
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

/* --- the callbacks, in the order in which they are called --- */

/*
 * Is [addr, addr + size) of the calling process our memory, all of it? This is
 * asked for every registration of any memory, so it must be quick to say no, and
 * never say yes to what belongs to somebody else. 1: yes; 0 or -errno: no.
 */
static int sample_acquire(unsigned long addr, size_t size, void *private_data,
			  char *name, void **client_context)
{
	struct mm_struct *mm = current->mm;
	struct sample_region found, *region;
	struct vm_area_struct *vma;
	bool ours = false;

	/* A kernel thread has none. */
	if (!mm)
		return 0;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	if (vma && vma->vm_ops == &sample_vm_ops && size <= vma->vm_end - addr) {
		found.first = vma->vm_pgoff + ((addr - vma->vm_start) >> PAGE_SHIFT);
		found.count = DIV_ROUND_UP(offset_in_page(addr) + size, PAGE_SIZE);
		found.writable = vma->vm_flags & VM_WRITE;
		ours = true;
	}
	mmap_read_unlock(mm);
	if (!ours)
		return 0;

	region = kmemdup(&found, sizeof(found), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	INIT_LIST_HEAD(&region->node);
	*client_context = region;
	return 1;
}

/*
 * Keep the range where it is until put_pages, and describe it. A client whose
 * memory has struct pages does it here, from the start of the page that addr is
 * in; one whose memory has none leaves sg_head alone, and allocates and fills it
 * in dma_map.
 *
 * core_context may be used as soon as anybody can see it: whatever an
 * invalidation needs must be in place by then.
 */
static int sample_get_pages(unsigned long addr, size_t size, int write, int force,
			    struct sg_table *sg_head, void *client_context,
			    u64 core_context)
{
	struct sample_region *region = client_context;
	unsigned long i;
	int ret;

	/* force: somebody is going to write. */
	if (force && !region->writable)
		return -EFAULT;

	ret = sg_alloc_table_from_pages(sg_head, sample_pages + region->first,
					region->count, 0,
					region->count << PAGE_SHIFT, GFP_KERNEL);
	if (ret)
		return ret;

	mutex_lock(&sample_lock);
	if (sample_going) {
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

/* The size of the pages that get_pages and dma_map describe. */
static unsigned long sample_get_page_size(void *client_context)
{
	return PAGE_SIZE;
}

/*
 * Make the range reachable by dma_device, which is the adapter's: a DMA address
 * and a length for each entry, and how many entries have one. Software adapters
 * have no such device; they use the struct pages, and this is not called.
 *
 * Take no lock here that you hold when you invalidate: an invalidation during a
 * registration waits for this.
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

/* Undo dma_map. The adapter has stopped: nobody uses the addresses. */
static int sample_dma_unmap(struct sg_table *sg_head, void *client_context,
			    struct device *dma_device)
{
	dma_unmap_sgtable(dma_device, sg_head, DMA_BIDIRECTIONAL, 0);
	return 0;
}

/*
 * Undo get_pages. May run in any task: that of a process which deregisters or
 * dies, one that unregisters us, one that removes the RDMA device, or the one
 * that invalidates, from inside its call of the invalidate function.
 */
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

/* Undo acquire: the last call for the region. */
static void sample_release(void *client_context)
{
	kfree(client_context);
}

static const struct peer_memory_client sample_client = {
	.name = "peer_client_sample",
	.version = "1.0",
	.acquire = sample_acquire,
	.get_pages = sample_get_pages,
	.get_page_size = sample_get_page_size,
	.dma_map = sample_dma_map,
	.dma_unmap = sample_dma_unmap,
	.put_pages = sample_put_pages,
	.release = sample_release,
};

/* --- taking the memory away --- */

/* On return no adapter reaches the memory, and nothing of it is pinned. */
static void sample_take_away(void)
{
	struct sample_region *region;
	u64 core_context;

	mutex_lock(&sample_lock);
	/* No new ones, or this might never end. */
	sample_going = true;
	while ((region = list_first_entry_or_null(&sample_pinned, struct sample_region,
						  node))) {
		list_del_init(&region->node);
		core_context = region->core_context;
		mutex_unlock(&sample_lock);
		/*
		 * The region may have been released by now, in another task: then
		 * the core does not know core_context any more, and this does
		 * nothing. Else it stops the adapter and calls put_pages.
		 */
		sample_invalidate(sample_handle, core_context);
		mutex_lock(&sample_lock);
	}
	mutex_unlock(&sample_lock);

	/*
	 * A deregistration that had begun before calls put_pages in its own task:
	 * the adapter is past using the memory, but we want it back.
	 */
	wait_event(sample_idle, !READ_ONCE(sample_in_use));

	mutex_lock(&sample_lock);
	sample_going = false;
	mutex_unlock(&sample_lock);
}

static ssize_t sample_take_away_write(struct file *file, const char __user *buf,
				      size_t count, loff_t *ppos)
{
	static DEFINE_MUTEX(one_at_a_time);

	mutex_lock(&one_at_a_time);
	sample_take_away();
	mutex_unlock(&one_at_a_time);
	return count;
}

static const struct file_operations sample_take_away_fops = {
	.owner = THIS_MODULE,
	.write = sample_take_away_write,
};

static struct dentry *sample_debugfs;

/* --- coming and going --- */

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
	 * The callbacks may be called from here on. The second argument says that
	 * we want to invalidate: we are then only asked about adapters that can be
	 * made to stop. The log says why, where this fails.
	 */
	sample_handle = ib_register_peer_memory_client(&sample_client,
						       persistent ? NULL : &sample_invalidate);
	if (!sample_handle) {
		ret = -EINVAL;
		goto err_pages;
	}

	/* Nothing can be mapped, and so nothing acquired, before this. */
	ret = misc_register(&sample_misc);
	if (ret)
		goto err_client;

	sample_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	if (!persistent)
		debugfs_create_file("take_away", 0200, sample_debugfs, NULL,
				    &sample_take_away_fops);
	return 0;

err_client:
	ib_unregister_peer_memory_client(sample_handle);
err_pages:
	sample_free_pages();
	return ret;
}

static void __exit sample_exit(void)
{
	/* Waits for a write that is under way. */
	debugfs_remove(sample_debugfs);
	misc_deregister(&sample_misc);
	/*
	 * Mappings hold this module, memory regions need not: those that are left
	 * are taken away here; if we are persistent, on an adapter that cannot be
	 * stopped, they are waited for. No callback runs once this has returned.
	 */
	ib_unregister_peer_memory_client(sample_handle);
	sample_free_pages();
}

module_init(sample_init);
module_exit(sample_exit);

MODULE_DESCRIPTION("A peer memory client, to copy from");
MODULE_LICENSE("GPL");
