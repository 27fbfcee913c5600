// SPDX-License-Identifier: GPL-2.0
/*
 * Stands for the closed driver of a device, whose client is a module of its own
 * (closed_client). Only its license string matters.
 */
#include <linux/module.h>

int closed_provider_pages(void);
int closed_provider_pages(void)
{
	return 0;
}
EXPORT_SYMBOL(closed_provider_pages);

MODULE_LICENSE("Proprietary");
MODULE_DESCRIPTION("A test: a module that is not under the GPL");
