/* SPDX-License-Identifier: GPL-2.0 */
/* A look-up in the page tables, for the most frequent kinds of mappings. */
#ifndef EXT_PGTABLE_H
#define EXT_PGTABLE_H

#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "helpers.h"

#ifdef CONFIG_X86_64

/* Returns the entry for @addr of the table at @table, whose entries cover 1 << @shift bytes each. */
static __always_inline u64 ext_entry(const u64 *table, unsigned long addr, unsigned int shift)
{
	return READ_ONCE(table[(addr >> shift) % PTRS_PER_PTE]);
}

/*
 * Returns the kind of memory at @addr in the tables from @table on, otherwise like
 * ext_native_memory_at().
 *
 * Only the tables of the user half stay while interrupts are disabled: tables of the kernel half
 * are freed without an interrupt of all CPUs. So addresses of the kernel half are rejected before a
 * table is read, as in GUP's fast path.
 */
static __always_inline enum ext_memory ext_native_walk(const u64 *table, unsigned long addr)
{
	const u64 flags = _PAGE_PRESENT | _PAGE_RW | _PAGE_USER;
	u64 mask = PTE_PFN_MASK, entry;
	unsigned long base = PAGE_OFFSET;
	struct page *page;

	addr = untagged_addr(addr);
	if (pgtable_l5_enabled()) {
		if (addr >> 56)
			return EXT_MEMORY_UNKNOWN;
		entry = ext_entry(table, addr, P4D_SHIFT + 9);
		if (!(entry & _PAGE_PRESENT))
			return EXT_MEMORY_UNKNOWN;
		table = (const u64 *)((entry & mask) + base);
	} else if (addr >> 47) {
		return EXT_MEMORY_UNKNOWN;
	}
	entry = ext_entry(table, addr, P4D_SHIFT);
	if (!(entry & _PAGE_PRESENT))
		return EXT_MEMORY_UNKNOWN;
	entry = ext_entry((const u64 *)((entry & mask) + base), addr, PUD_SHIFT);
	if ((entry & (_PAGE_PRESENT | _PAGE_PSE)) != _PAGE_PRESENT)
		return EXT_MEMORY_UNKNOWN;
	entry = ext_entry((const u64 *)((entry & mask) + base), addr, PMD_SHIFT);
	if (entry & _PAGE_PSE) {
		mask &= PMD_MASK;
	} else {
		if (!(entry & _PAGE_PRESENT))
			return EXT_MEMORY_UNKNOWN;
		entry = ext_entry((const u64 *)((entry & mask) + base), addr, PAGE_SHIFT);
	}
	/* A protection key may forbid the access. */
	if ((entry & (flags | _PAGE_PKEY_MASK)) != flags)
		return EXT_MEMORY_UNKNOWN;
	if (entry & _PAGE_SPECIAL)
		return EXT_MEMORY_DEVICE;
	page = pfn_to_page((entry & mask) >> PAGE_SHIFT);
	if (likely(!is_zone_device_page(page)))
		return EXT_MEMORY_ORDINARY;
	return is_pci_p2pdma_page(page) ? EXT_MEMORY_DEVICE : EXT_MEMORY_UNKNOWN;
}

/*
 * Returns the kind of memory at @addr of the calling process. For EXT_MEMORY_UNKNOWN the caller
 * must ask ext_memory_at(). The caller has disabled interrupts.
 *
 * Reads entries without the accessors, which paravirt replaces, in a third of the instructions.
 * Entries on Xen need the accessors, so Xen and all rare cases are left to ext_memory_at().
 */
static __always_inline enum ext_memory ext_native_memory_at(unsigned long addr)
{
	const struct mm_struct *mm = current->mm;

	if (cpu_feature_enabled(X86_FEATURE_XENPV) || !mm)
		return EXT_MEMORY_UNKNOWN;
	return ext_native_walk((const u64 *)mm->pgd, addr);
}

#else

static __always_inline enum ext_memory ext_native_memory_at(unsigned long addr)
{
	return EXT_MEMORY_UNKNOWN;
}

#endif

#endif
