// SPDX-License-Identifier: GPL-2.0
/* What is inline or a macro in some configuration, for the tests. */
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/mman.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../../include/uapi/ib_peer_mem.h"
#include "helpers.h"

u64 kt_alloc(unsigned int order)
{
	unsigned long virt = __get_free_pages(GFP_KERNEL | __GFP_ZERO, order);

	return virt ? virt_to_phys((void *)virt) : 0;
}

void kt_free(u64 phys, unsigned int order)
{
	free_pages((unsigned long)phys_to_virt(phys), order);
}

u64 kt_phys_of(u64 virt)
{
	return virt_to_phys((void *)(unsigned long)virt);
}

/* phys 0: an entry without a page, as drivers of page-less memory make them. */
void kt_sg_set(struct scatterlist *sg, u64 phys, unsigned int len)
{
	sg_set_page(sg, phys ? pfn_to_page(PHYS_PFN(phys)) : NULL, len,
		    offset_in_page(phys));
}

void kt_sg_set_dma(struct scatterlist *sg, u64 addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
}

/* Returns what it was. */
unsigned int kt_set_max_seg_size(struct device *dev, unsigned int size)
{
	unsigned int old = dma_get_max_seg_size(dev);

	dma_set_max_seg_size(dev, size);
	return old;
}

int kt_dma_map(struct device *dev, struct sg_table *table)
{
	return dma_map_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
}

void kt_dma_unmap(struct device *dev, struct sg_table *table)
{
	dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, 0);
}

/* The calling task's n-th allocation from now on fails; 0: none. */
void kt_fail_nth(unsigned int n)
{
	WRITE_ONCE(current->fail_nth, n);
}

unsigned int kt_fail_left(void)
{
	return READ_ONCE(current->fail_nth);
}

void kt_count_up(atomic_t *count)
{
	atomic_inc(count);
}

static const char *kt_fence_name(struct dma_fence *fence)
{
	return "kunit";
}

static const struct dma_fence_ops kt_fence_ops = {
	.get_driver_name = kt_fence_name,
	.get_timeline_name = kt_fence_name,
};

/* Somebody still uses what the locked object is for. NULL: no memory. */
struct dma_fence *kt_fence_add(struct dma_resv *resv)
{
	struct dma_fence *fence;

	if (dma_resv_reserve_fences(resv, 1))
		return NULL;
	fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	if (!fence)
		return NULL;
	dma_fence_init(fence, &kt_fence_ops, NULL, dma_fence_context_alloc(1), 1);
	dma_resv_add_fence(resv, fence, DMA_RESV_USAGE_BOOKKEEP);
	return fence;
}

void kt_fence_signal(struct dma_fence *fence)
{
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

/* In the process that loads the module: kernel threads need have no root folder. */
struct file *kt_control_open(void)
{
	return filp_open("/dev/ib_peer_mem", O_RDWR, 0);
}

void kt_control_close(struct file *control)
{
	filp_close(control, NULL);
}

/*
 * A page that the task which a test runs in can have its arguments in, there for as
 * long as the test; 0: no memory. Not where allocations are made to fail: KUnit then
 * leaks its own note of it.
 */
unsigned long kt_user_page(void)
{
	struct kunit *test = kunit_get_current_test();
	unsigned long at;

	if (!test || kunit_attach_mm())
		return 0;
	at = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(at) || clear_user((void __user *)at, PAGE_SIZE))
		return 0;
	return at;
}

/*
 * As a process would do it, with its arguments at @at. Returns the file descriptor of
 * the dma-buf, or -errno.
 */
int kt_export(struct file *control, unsigned long at, u64 addr, u64 length)
{
	struct ib_peer_mem_export arg = {
		.version = IB_PEER_MEM_EXPORT_VERSION,
		.addr = addr,
		.length = length,
	};
	long ret;

	if (copy_to_user((void __user *)at, &arg, sizeof(arg)))
		return -EFAULT;
	ret = control->f_op->unlocked_ioctl(control, IB_PEER_MEM_IOC_EXPORT, at);
	if (ret)
		return ret;
	return copy_from_user(&arg, (void __user *)at, sizeof(arg)) ? -EFAULT : arg.fd;
}

/* On return the file is released, unless somebody else has it. */
void kt_close(int fd)
{
	close_fd(fd);
	flush_delayed_fput();
}
