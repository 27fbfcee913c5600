// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/uaccess.h. */
#include <linux/uaccess.h>

#include "helpers.h"

unsigned long ext_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}
