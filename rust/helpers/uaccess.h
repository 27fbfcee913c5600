/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/uaccess.h>

/* Returns @addr of the calling process without the bits that the CPU ignores, as GUP does. */
static inline unsigned long ext_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}

/* The first canonical address of the kernel. */
static inline unsigned long ext_kernel_half(void)
{
#if defined(CONFIG_X86_64)
	return ~__VIRTUAL_MASK;
#elif defined(CONFIG_ARM64)
	return _PAGE_OFFSET(vabits_actual);
#else
	return ULONG_MAX;
#endif
}
