// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/uaccess.h. */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "helpers.h"

unsigned long ext_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}

/* The first canonical address of the kernel. */
unsigned long ext_kernel_half(void)
{
#if defined(CONFIG_X86_64)
	return ~__VIRTUAL_MASK;
#elif defined(CONFIG_ARM64)
	return _PAGE_OFFSET(vabits_actual);
#else
	return ULONG_MAX;
#endif
}
