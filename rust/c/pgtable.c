// SPDX-License-Identifier: GPL-2.0
/* A look-up in the page tables. */
#include <linux/irqflags.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "logic.h"
#include "pgtable.h"

#ifdef CONFIG_HAVE_GUP_FAST

enum ext_memory ext_memory_at(unsigned long addr)
{
	enum ext_memory memory;
	unsigned long flags;

	/* As for pin_user_pages_fast(): no page table is freed while interrupts are disabled. */
	local_irq_save(flags);
	memory = ext_native_memory_at(addr);
	if (IS_ENABLED(CONFIG_X86_64) && memory == EXT_MEMORY_UNKNOWN)
		memory = ext_generic_memory_at(addr);
	local_irq_restore(flags);
	return memory;
}

#else

enum ext_memory ext_memory_at(unsigned long addr)
{
	return EXT_MEMORY_UNKNOWN;
}

#endif
