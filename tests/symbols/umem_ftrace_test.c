// SPDX-License-Identifier: GPL-2.0
/*
 * umem_ftrace_test - modifies the function that pins user memory as another user of ftrace
 *
 * ftrace gives the right to change the instruction pointer to one user of a function, so the umem hook
 * cannot be placed meanwhile.
 */
#include <linux/ftrace.h>
#include <linux/module.h>

static void modify(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		   struct ftrace_regs *fregs)
{
}

/* The second one before 7.2. */
static char name[] = "ib_umem_get_desc", old_name[] = "ib_umem_get";
static struct ftrace_ops ops = {
	.func = modify,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static int __init umem_ftrace_test_init(void)
{
	int err = ftrace_set_filter(&ops, name, strlen(name), 1);

	if (err)
		err = ftrace_set_filter(&ops, old_name, strlen(old_name), 1);
	if (!err)
		err = register_ftrace_function(&ops);
	if (err)
		ftrace_free_filter(&ops);
	return err;
}

static void __exit umem_ftrace_test_exit(void)
{
	unregister_ftrace_function(&ops);
	ftrace_free_filter(&ops);
}

module_init(umem_ftrace_test_init);
module_exit(umem_ftrace_test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Modifies a function that the umem hook redirects");
