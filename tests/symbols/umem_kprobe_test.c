// SPDX-License-Identifier: GPL-2.0
/*
 * umem_kprobe_test - modifies ib_umem_get_desc() as another user of ftrace
 *
 * A kprobe with a post handler may change the instruction pointer. ftrace gives that
 * right to one user of a function, so the umem hook cannot be placed meanwhile.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static void post_handler(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "ib_umem_get_desc",
	.post_handler = post_handler,
};

static int __init umem_kprobe_test_init(void)
{
	return register_kprobe(&probe);
}

static void __exit umem_kprobe_test_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(umem_kprobe_test_init);
module_exit(umem_kprobe_test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Modifies a function that the umem hook redirects");
