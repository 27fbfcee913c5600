/* SPDX-License-Identifier: GPL-2.0 */
/* A look-up in the page tables, for the most frequent kinds of mappings. */
#ifndef EXT_PGTABLE_H
#define EXT_PGTABLE_H

#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "logic.h"

#ifdef CONFIG_HAVE_GUP_FAST

static __always_inline enum ext_memory ext_memory_of(bool permitted, bool special, struct page *page)
{
	if (!permitted)
		return EXT_MEMORY_UNKNOWN;
	/* Without struct pages. The zero page is special too, but never permitted for writes. */
	if (special || is_pci_p2pdma_page(page))
		return EXT_MEMORY_DEVICE;
	return is_zone_device_page(page) ? EXT_MEMORY_UNKNOWN : EXT_MEMORY_ORDINARY;
}

/* As ext_native_memory_at(), by the kernel's accessors. */
static __always_inline enum ext_memory ext_generic_memory_at(unsigned long addr)
{
	pgd_t *pgdp, pgd;
	p4d_t *p4dp, p4d;
	pud_t *pudp, pud;
	pmd_t *pmdp, pmd;
	pte_t pte;

	addr = untagged_addr(addr);
	if (!current->mm || addr >= TASK_SIZE)
		return EXT_MEMORY_UNKNOWN;
	pgdp = pgd_offset(current->mm, addr);
	pgd = pgdp_get(pgdp);
	if (pgd_none(pgd))
		return EXT_MEMORY_UNKNOWN;
	p4dp = p4d_offset_lockless(pgdp, pgd, addr);
	p4d = p4dp_get(p4dp);
	if (!p4d_present(p4d))
		return EXT_MEMORY_UNKNOWN;
	pudp = pud_offset_lockless(p4dp, p4d, addr);
	pud = pudp_get(pudp);
	/* Huge pages of 1 GiB are rare. */
	if (!pud_present(pud) || pud_leaf(pud))
		return EXT_MEMORY_UNKNOWN;
	pmdp = pmd_offset_lockless(pudp, pud, addr);
	pmd = pmdp_get_lockless(pmdp);
	if (!pmd_present(pmd))
		return EXT_MEMORY_UNKNOWN;
	if (pmd_leaf(pmd))
		return ext_memory_of(pmd_access_permitted(pmd, true), pmd_special(pmd), pmd_page(pmd));
	pte = ptep_get_lockless(pte_offset_kernel(&pmd, addr));
	if (!pte_present(pte))
		return EXT_MEMORY_UNKNOWN;
	return ext_memory_of(pte_access_permitted(pte, true), pte_special(pte), pte_page(pte));
}

#endif

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

#elif defined(CONFIG_HAVE_GUP_FAST)

/* The accessors of other architectures are plain reads. */
static __always_inline enum ext_memory ext_native_memory_at(unsigned long addr)
{
	return ext_generic_memory_at(addr);
}

#else

static __always_inline enum ext_memory ext_native_memory_at(unsigned long addr)
{
	return EXT_MEMORY_UNKNOWN;
}

#endif

#endif
