// SPDX-License-Identifier: GPL-2.0
/*
 * replica - a client with the habits of clients in the field
 *
 * clients=N clients register, with a structure that has more members than the core's. With pages=N
 * each serves N pages of RAM, which processes map from /dev/NAME; without, they claim no memory. With
 * bdf=DOMAIN:BUS:DEVICE.FUNCTION the memory is BAR 2 of a PCI function that has no driver. The
 * parameter habit has what the client does from now on, and a write to invalidate revokes all regions.
 * The habits from "short" on are faults, for the report card.
 *
 * replica_by_symbol is the same client, which does not depend on ib_peer_mem: it finds the functions by
 * symbol_get() and gives the symbols back at once.
 */
#include <linux/atomic.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

/* The name by which existing drivers include the header. */
#include <rdma/peer_mem.h>

enum habit {
	NONE,
	PAGE_LINK_0,	/* no page, and no end mark, in any entry */
	LENGTH_0,	/* the same, and only the DMA length */
	NMAP_MORE,	/* nmap is more than the entries */
	NMAP_UNSET,
	COPY,		/* frees the list through a copy of the table */
	PUT_TWICE,	/* release puts the pages again, by the table of get_pages */
	UNMAPS,		/* looks at the table after an invalidation, and puts the pages again */
	SHORT,		/* the last page is missing */
	START,		/* the table begins at the start of the memory */
	GREEDY,		/* claims what lies behind the mapping */
	FORCE,		/* takes permission from force, as under OFED */
	DEAF,		/* invalidates nothing */
	KEEPS,		/* keeps a reference to its module for each region */
};

static const char *const habits[] = {
	"none", "page_link_0", "length_0", "nmap_more", "nmap_unset", "copy", "put_twice",
	"unmaps", "short", "start", "greedy", "force", "deaf", "keeps",
};

static char name[IB_PEER_MEMORY_NAME_MAX] = KBUILD_MODNAME;
module_param_string(name, name, sizeof(name), 0444);
static unsigned int clients = 1;
module_param(clients, uint, 0444);
static unsigned int pages;
module_param(pages, uint, 0444);
static bool invalidates = true;
module_param(invalidates, bool, 0444);
static char *bdf;
module_param(bdf, charp, 0444);

struct replica {
	struct peer_memory_client client;
	/* Of vendors' headers. */
	void *(*get_context_private_data)(u64 core_context);
	void (*put_context_private_data)(void *context);
	void *handle;
};

struct region {
	struct list_head node;
	enum habit habit;
	unsigned long first, count;
	bool writable, pinned;
	u64 ticket;
	struct sg_table *given, copy;
};

static struct replica *replicas;
static invalidate_peer_memory invalidate;
static enum habit habit;
static atomic_t calls;
static unsigned int kept;
static struct page **memory;
static struct pci_dev *function;
static LIST_HEAD(regions);
static DEFINE_MUTEX(lock);

#ifdef BY_SYMBOL
static typeof(ib_register_peer_memory_client) *do_register;
static typeof(ib_unregister_peer_memory_client) *do_unregister;

static bool find_functions(void)
{
	do_register = symbol_get(ib_register_peer_memory_client);
	if (!do_register)
		return false;
	do_unregister = symbol_get(ib_unregister_peer_memory_client);
	return true;
}

static void forget_symbols(void)
{
	symbol_put(ib_register_peer_memory_client);
	symbol_put(ib_unregister_peer_memory_client);
}
#else
#define do_register ib_register_peer_memory_client
#define do_unregister ib_unregister_peer_memory_client
static bool find_functions(void) { return true; }
static void forget_symbols(void) { }
#endif

#define BAR 2

static phys_addr_t address_of(unsigned long i)
{
	if (function)
		return pci_resource_start(function, BAR) + (i << PAGE_SHIFT);
	return page_to_phys(memory[i]);
}

static const struct vm_operations_struct vm_ops = { };

static int map(struct file *file, struct vm_area_struct *vma)
{
	unsigned long i;
	int err = 0;

	if (vma->vm_pgoff || vma_pages(vma) > pages ||
	    (vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	/* Programs copy at any offset, to which an uncached mapping objects on other architectures. */
	if (function)
		vma->vm_page_prot = IS_ENABLED(CONFIG_X86) ? pgprot_noncached(vma->vm_page_prot) :
							     pgprot_writecombine(vma->vm_page_prot);
	/* Which the CPU cannot pin. */
	for (i = 0; !err && i < vma_pages(vma); i++)
		err = remap_pfn_range(vma, vma->vm_start + i * PAGE_SIZE, PHYS_PFN(address_of(i)),
				      PAGE_SIZE, vma->vm_page_prot);
	vma->vm_ops = &vm_ops;
	return err;
}

static const struct file_operations fops = { .owner = THIS_MODULE, .mmap = map };
static struct miscdevice misc = { .minor = MISC_DYNAMIC_MINOR, .name = name, .fops = &fops };

static int acquire(unsigned long addr, size_t size, void *private_data, char *peer_name,
		   void **context)
{
	struct vm_area_struct *vma;
	struct region *region;

	atomic_inc(&calls);
	if (!pages || !current->mm)
		return 0;
	region = kzalloc(sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	INIT_LIST_HEAD(&region->node);
	region->habit = READ_ONCE(habit);
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	if (vma && vma->vm_ops == &vm_ops &&
	    (size <= vma->vm_end - addr || region->habit == GREEDY)) {
		region->first = (addr - vma->vm_start) >> PAGE_SHIFT;
		region->count = DIV_ROUND_UP(offset_in_page(addr) + size, PAGE_SIZE);
		region->writable = vma->vm_flags & VM_WRITE;
	}
	mmap_read_unlock(current->mm);
	if (!region->count) {
		kfree(region);
		return 0;
	}
	if (region->habit == START)
		region->first = 0;
	if (region->habit == KEEPS && try_module_get(THIS_MODULE))
		kept++;
	*context = region;
	return 1;
}

static struct page *page_of(struct region *region, unsigned long i)
{
	return memory[(region->first + i) % pages];
}

static bool has_struct_pages(struct region *region)
{
	return region->habit != PAGE_LINK_0 && region->habit != LENGTH_0;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	struct region *region = context;
	struct scatterlist *sg;
	unsigned int i;
	int err;

	if (!region->writable && (region->habit != FORCE || (write && !force)))
		return -EFAULT;
	if (region->habit == SHORT && !--region->count)
		return -EFAULT;
	/* Of a BAR dma_map makes the table. */
	if (!function) {
		err = sg_alloc_table(table, region->count, GFP_KERNEL);
		if (err)
			return err;
		for_each_sg(table->sgl, sg, region->count, i)
			sg_set_page(sg, page_of(region, i), PAGE_SIZE, 0);
		region->given = table;
		region->copy = *table;
		region->pinned = true;
		if (!has_struct_pages(region))
			*table = (struct sg_table) { };
	}
	mutex_lock(&lock);
	region->ticket = core_context;
	list_add(&region->node, &regions);
	mutex_unlock(&lock);
	return 0;
}

static unsigned long get_page_size(void *context)
{
	return PAGE_SIZE;
}

/* Has the list with or without the marks and pages that its habit removes. */
static void set_links(struct region *region, bool whole)
{
	struct scatterlist *sg = region->copy.sgl;
	unsigned int i = 0;

	/* Not for_each_sg(), which looks for a mark behind the last entry. */
	for (;; sg = sg_next(sg)) {
		if (whole) {
			sg_set_page(sg, page_of(region, i), PAGE_SIZE, 0);
		} else {
			sg->page_link = 0;
			if (region->habit == LENGTH_0)
				sg->length = 0;
		}
		if (++i == region->copy.orig_nents)
			break;
	}
	if (whole)
		sg_mark_end(sg);
}

/* The table of a BAR has one entry. */
static int map_bar(struct region *region, struct sg_table *table, struct device *dev)
{
	size_t length = region->count << PAGE_SHIFT;
	int err = sg_alloc_table(table, 1, GFP_KERNEL);

	if (err)
		return err;
	sg_dma_len(table->sgl) = length;
	sg_dma_address(table->sgl) = dma_map_resource(dev, address_of(region->first), length,
						      DMA_BIDIRECTIONAL, 0);
	if (!dma_mapping_error(dev, sg_dma_address(table->sgl)))
		return 0;
	sg_free_table(table);
	return -EIO;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	struct region *region = context;
	int err;

	if (function) {
		*nmap = 1;
		return map_bar(region, table, dev);
	}
	err = dma_map_sgtable(dev, &region->copy, DMA_BIDIRECTIONAL, 0);
	if (err)
		return err;
	*table = region->copy;
	if (!has_struct_pages(region))
		set_links(region, false);
	if (region->habit != NMAP_UNSET)
		*nmap = table->nents + (region->habit == NMAP_MORE ? 3 : 0);
	return 0;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	struct region *region = context;

	if (function) {
		dma_unmap_resource(dev, sg_dma_address(table->sgl), sg_dma_len(table->sgl),
				   DMA_BIDIRECTIONAL, 0);
		sg_free_table(table);
		return 0;
	}
	if (!has_struct_pages(region))
		set_links(region, true);
	dma_unmap_sgtable(dev, &region->copy, DMA_BIDIRECTIONAL, 0);
	return 0;
}

/* Clients call it again, with the table of the first call. */
static void put_pages(struct sg_table *table, void *context)
{
	struct region *region = context;

	mutex_lock(&lock);
	list_del_init(&region->node);
	mutex_unlock(&lock);
	if (function)
		return;
	if (!region->pinned) {
		WARN_ON(table->orig_nents != region->copy.orig_nents);
		return;
	}
	region->pinned = false;
	if (region->habit == COPY)
		sg_free_table(&region->copy);
	else
		sg_free_table(table->sgl ? table : &region->copy);
	region->copy.orig_nents = table->orig_nents;
}

static void release(void *context)
{
	struct region *region = context;

	if (region->habit == PUT_TWICE && region->given)
		put_pages(region->given, region);
	kfree(region);
}

static void invalidate_all(void)
{
	struct region *region;
	struct sg_table *given;
	u64 ticket;

	mutex_lock(&lock);
	while (habit != DEAF && (region = list_first_entry_or_null(&regions, struct region, node))) {
		list_del_init(&region->node);
		ticket = region->ticket;
		given = region->habit == UNMAPS ? region->given : NULL;
		mutex_unlock(&lock);
		invalidate(replicas[0].handle, ticket);
		/* The process has the MR until it is deregistered: the test keeps it. */
		if (given)
			put_pages(given, region);
		mutex_lock(&lock);
	}
	mutex_unlock(&lock);
}

static int set_invalidate(const char *value, const struct kernel_param *kp)
{
	if (!invalidate)
		return -EINVAL;
	invalidate_all();
	return 0;
}
static const struct kernel_param_ops invalidate_ops = { .set = set_invalidate };
module_param_cb(invalidate, &invalidate_ops, NULL, 0200);

static int set_habit(const char *value, const struct kernel_param *kp)
{
	int new = sysfs_match_string(habits, value);

	if (new < 0)
		return new;
	WRITE_ONCE(habit, new);
	for (; new != KEEPS && kept; kept--)
		module_put(THIS_MODULE);
	return 0;
}

static int get_habit(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", habits[habit]);
}
static const struct kernel_param_ops habit_ops = { .set = set_habit, .get = get_habit };
module_param_cb(habit, &habit_ops, NULL, 0644);

static int get_calls(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&calls));
}
static const struct kernel_param_ops calls_ops = { .get = get_calls };
module_param_cb(calls, &calls_ops, NULL, 0444);

/* Not a member of the core's structure. */
static void *no_private_data(u64 core_context)
{
	WARN_ON(1);
	return NULL;
}

static void undo(void)
{
	unsigned int i;

	for (i = 0; replicas && i < clients; i++)
		if (replicas[i].handle)
			do_unregister(replicas[i].handle);
	kvfree(replicas);
	if (function) {
		pci_disable_device(function);
		pci_dev_put(function);
	}
	for (i = 0; memory && i < pages && memory[i]; i++)
		__free_page(memory[i]);
	kvfree(memory);
}

static int register_clients(void)
{
	unsigned int i;

	for (i = 0; i < clients; i++) {
		struct replica *r = &replicas[i];

		r->client = (struct peer_memory_client) {
			.version = "1", .acquire = acquire, .get_pages = get_pages,
			.dma_map = dma_map, .dma_unmap = dma_unmap, .put_pages = put_pages,
			.get_page_size = get_page_size, .release = release,
		};
		r->get_context_private_data = no_private_data;
		r->put_context_private_data = (void *)no_private_data;
		if (i)
			snprintf(r->client.name, sizeof(r->client.name), "%s %u", name, i);
		else
			strscpy(r->client.name, name);
		r->handle = do_register(&r->client, invalidates ? &invalidate : NULL);
		if (!r->handle)
			return -EINVAL;
	}
	return 0;
}

static int find_bar(void)
{
	unsigned int domain, bus, slot, func;

	if (sscanf(bdf, "%x:%x:%x.%u", &domain, &bus, &slot, &func) != 4)
		return -EINVAL;
	function = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
	if (!function || pci_enable_device_mem(function)) {
		pci_dev_put(function);
		return -ENODEV;
	}
	pages = pci_resource_len(function, BAR) >> PAGE_SHIFT;
	return 0;
}

static int __init replica_init(void)
{
	unsigned int i;
	int err = -ENOMEM;

	if (!find_functions())
		return -ENOENT;
	if (bdf && find_bar())
		return -ENODEV;
	replicas = kvcalloc(clients, sizeof(*replicas), GFP_KERNEL);
	memory = kvcalloc(pages, sizeof(*memory), GFP_KERNEL);
	if (!replicas || !memory)
		goto undo;
	for (i = 0; !function && i < pages; i++) {
		memory[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!memory[i])
			goto undo;
	}
	err = register_clients();
	forget_symbols();
	if (!err && pages)
		err = misc_register(&misc);
undo:
	if (err)
		undo();
	return err;
}

static void __exit replica_exit(void)
{
	if (pages)
		misc_deregister(&misc);
	undo();
}

module_init(replica_init);
module_exit(replica_exit);
MODULE_DESCRIPTION("A client with the habits of clients in the field");
MODULE_LICENSE("GPL");
