// SPDX-License-Identifier: GPL-2.0
/* What vendors' drivers are if their build did not find peer memory. */
#include <linux/module.h>

static int __init without_init(void)
{
	return -EINVAL;
}
module_init(without_init);

MODULE_DESCRIPTION("A client that was built without peer memory");
MODULE_LICENSE("GPL");
