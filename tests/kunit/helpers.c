// SPDX-License-Identifier: GPL-2.0
/* For the tests: functions that are inline or a macro in some configuration. */
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/kallsyms.h>
#include <linux/kmemleak.h>
#include <linux/kprobes.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>

#include "../../rust/c/pgtable.h"
#include "helpers.h"

static const char *kt_fence_name(struct dma_fence *fence)
{
	return "kunit";
}

static const struct dma_fence_ops kt_fence_ops = {
	.get_driver_name = kt_fence_name,
	.get_timeline_name = kt_fence_name,
};

/* Before 7.1 a fence has no lock of its own. */
static DEFINE_SPINLOCK(kt_fence_lock);

/* Adds a fence to the locked object. Returns NULL without memory. */
struct dma_fence *kt_fence_add(struct dma_resv *resv)
{
	struct dma_fence *fence;

	if (dma_resv_reserve_fences(resv, 1))
		return NULL;
	fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	if (!fence)
		return NULL;
	dma_fence_init(fence, &kt_fence_ops, &kt_fence_lock, dma_fence_context_alloc(1), 1);
	dma_resv_add_fence(resv, fence, DMA_RESV_USAGE_BOOKKEEP);
	return fence;
}

void kt_fence_signal(struct dma_fence *fence)
{
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

/*
 * Maps @pages consecutive pages, which are in memory, until the calling test ends. Returns 0 without
 * memory. Not for use while allocations are made to fail: KUnit then leaks the record of the pages.
 */
unsigned long kt_user_pages(unsigned int pages)
{
	struct kunit *test = kunit_get_current_test();
	unsigned long at;

	if (!test || kunit_attach_mm())
		return 0;
	/*
	 * KUnit never drops the reference that kthread_use_mm() takes. On x86 the page of the page table
	 * points to the mm_struct, so that kmemleak does not notice.
	 */
	kmemleak_not_leak(current->mm);
	at = kunit_vm_mmap(test, NULL, 0, pages * PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(at) || clear_user((void __user *)at, pages * PAGE_SIZE))
		return 0;
	return at;
}

/*
 * Returns the result of the lockless walk for @addr, in tables whose entries all lead to an
 * ordinary page. So the result is unknown only if the walk rejects @addr before reading the tables.
 * Returns -errno without memory, or if there is no such walk.
 */
int kt_walk(unsigned long addr)
{
#ifdef CONFIG_X86_64
	u64 *table = (u64 *)__get_free_page(GFP_KERNEL);
	enum ext_memory memory;
	unsigned int i;

	if (!table)
		return -ENOMEM;
	/* The table is also the table of the next level, and the page. */
	for (i = 0; i < PTRS_PER_PTE; i++)
		table[i] = virt_to_phys(table) | _PAGE_PRESENT | _PAGE_RW | _PAGE_USER;
	local_irq_disable();
	memory = ext_native_walk(table, addr);
	local_irq_enable();
	free_page((unsigned long)table);
	return memory;
#else
	return -EOPNOTSUPP;
#endif
}

/* Also releases the file before the return, unless there are other references. */
void kt_close(int fd)
{
	close_fd(fd);
	flush_delayed_fput();
}

/*
 * Reports a fatal error, as the driver of the struct ib_device does. On return all handlers have
 * been called.
 */
void kt_report_fatal(void *dev)
{
	struct ib_event event = {
		.device = dev,
		.event = IB_EVENT_DEVICE_FATAL,
		.element.port_num = 1,
	};

	ib_dispatch_event(&event);
	flush_workqueue(ib_wq);
}

static atomic_t kt_updates = ATOMIC_INIT(0);
static bool kt_holds;
static DECLARE_WAIT_QUEUE_HEAD(kt_hold_ended);

/*
 * Stands for the function of mlx5, whose result the driver ignores when it invalidates. The core probes
 * the function by name.
 */
noinline int mlx5r_umr_update_mr_pas(int result)
{
	atomic_inc(&kt_updates);
	wait_event(kt_hold_ended, !READ_ONCE(kt_holds));
	atomic_dec(&kt_updates);
	return result;
}

int kt_update_mr(int result)
{
	return mlx5r_umr_update_mr_pas(result);
}

/* Holds the tasks that call the function above, or no longer. */
void kt_hold(bool on)
{
	WRITE_ONCE(kt_holds, on);
	wake_up_all(&kt_hold_ended);
}

/* Returns the number of tasks in the function. */
unsigned int kt_held(void)
{
	return atomic_read(&kt_updates);
}

/* @args: a struct fmt::Arguments of Rust. */
void kt_diagnostic(const void *args)
{
	struct kunit *test = kunit_get_current_test();

	if (test)
		kunit_err(test, "%pA\n", args);
	else
		pr_err("peer_mem_kunit: %pA\n", args);
}

static atomic_t kt_waits_count;
static unsigned long kt_waits_least;

static int kt_waits_enter(struct kprobe *probe, struct pt_regs *regs)
{
	if (regs_get_kernel_argument(regs, 1) >= kt_waits_least)
		atomic_inc(&kt_waits_count);
	return 0;
}

static struct kprobe kt_waits_probe;

/*
 * Counts the calls of a function, "MODULE:NAME", until kt_waits_end(). With @least, only calls
 * whose second argument is at least @least.
 */
int kt_waits_begin(const char *function, unsigned long least)
{
	atomic_set(&kt_waits_count, 0);
	kt_waits_least = least;
	kt_waits_probe = (struct kprobe) {
		.symbol_name = function,
		.pre_handler = kt_waits_enter,
	};
	return register_kprobe(&kt_waits_probe);
}

unsigned int kt_waits(void)
{
	return atomic_read(&kt_waits_count);
}

void kt_waits_end(void)
{
	unregister_kprobe(&kt_waits_probe);
}

static bool kt_is_grace_period(const char *symbol)
{
	return strstarts(symbol, "synchronize_") || strstarts(symbol, "rcu_barrier") ||
	       strstarts(symbol, "__wait_rcu_gp");
}

/*
 * Stores the return addresses on the stack of a sleeping task. Returns the number; 0: the task
 * runs.
 */
static unsigned int kt_sleep_stack(struct task_struct *task, unsigned long *stack,
				   unsigned int size)
{
	unsigned int state = READ_ONCE(task->__state);

	if (!(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) || READ_ONCE(task->on_cpu))
		return 0;
	return stack_trace_save_tsk(task, stack, size, 0);
}

/*
 * Finds where a sleeping task waits. Returns the innermost return address on the stack that is in a
 * module. Sets @names to the name of the kernel function called there (empty for functions of the
 * scheduler, such as the mutex functions), a space, and the name of the calling function with the
 * module. Returns 0 if the task runs, or waits for an RCU grace period.
 */
unsigned long kt_wait_site(struct task_struct *task, char *names, unsigned int size)
{
	unsigned long stack[32], site = 0;
	char *symbol = kmalloc(KSYM_SYMBOL_LEN, GFP_KERNEL);
	unsigned int i, n;

	if (!symbol)
		return 0;
	n = kt_sleep_stack(task, stack, ARRAY_SIZE(stack));
	for (i = 0; i < n; i++) {
		/* "name [module]"; the call is before the return address. */
		sprint_symbol_no_offset(symbol, stack[i] - 1);
		if (kt_is_grace_period(symbol)) {
			names[0] = 0;
			break;
		}
		if (strchr(symbol, '[')) {
			site = stack[i];
			strlcat(names, " ", size);
			strlcat(names, symbol, size);
			break;
		}
		strscpy(names, symbol, size);
	}
	kfree(symbol);
	return site;
}
