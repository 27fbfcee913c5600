// SPDX-License-Identifier: GPL-2.0
/*
 * hold_call_test - holds a call of a function of the kernel with up to four arguments
 *
 * After 1 is written to the parameter armed, the next call sleeps before its first instruction,
 * with all locks of its caller; after the number of a process, the next call by that. held is 1
 * meanwhile, until 0 is written to it or a time limit.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

#define LIMIT (30 * HZ)

static char *symbol = "ext_p2p_pages_in_use";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "the function (default: the scan of DM_FREE)");

static int armed;
module_param(armed, int, 0644);
MODULE_PARM_DESC(armed, "1: hold the next call; another number: of this process");

static int held;
module_param(held, int, 0644);
MODULE_PARM_DESC(held, "1 while a call is held; 0 releases it");

static struct kprobe probe;

static unsigned long held_call(unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	unsigned long (*call)(unsigned long, unsigned long, unsigned long, unsigned long) =
		(void *)probe.addr;
	unsigned long end = jiffies + LIMIT;

	WRITE_ONCE(held, 1);
	while (READ_ONCE(held) && time_before(jiffies, end))
		msleep(10);
	WRITE_ONCE(held, 0);
	return call(a, b, c, d);
}

static int pre_handler(struct kprobe *p, struct pt_regs *regs)
{
	int want = READ_ONCE(armed);

	if (!want || (want != 1 && want != current->tgid) || cmpxchg(&armed, want, 0) != want)
		return 0;
	instruction_pointer_set(regs, (unsigned long)held_call);
	return 1;
}

/* Says that the instruction pointer changes, and keeps the probe from being optimized. */
static void post_handler(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.pre_handler = pre_handler,
	.post_handler = post_handler,
};

static int __init hold_call_test_init(void)
{
	probe.symbol_name = symbol;
	return register_kprobe(&probe);
}

static void __exit hold_call_test_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(hold_call_test_init);
module_exit(hold_call_test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Holds a call of a function");
