// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/pgtable.h. */
#include <linux/irqflags.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "helpers.h"
#include "pgtable.h"

#ifdef CONFIG_HAVE_GUP_FAST

static enum ext_memory memory_of(bool permitted, bool special, struct page *page)
{
	if (!permitted)
		return EXT_MEMORY_UNKNOWN;
	/*
	 * A mapping without struct pages. The zero page is special too, but never permitted for
	 * writes.
	 */
	if (special)
		return EXT_MEMORY_DEVICE;
	if (is_pci_p2pdma_page(page))
		return EXT_MEMORY_DEVICE;
	return is_zone_device_page(page) ? EXT_MEMORY_UNKNOWN : EXT_MEMORY_ORDINARY;
}

static enum ext_memory look_up(unsigned long addr)
{
	pgd_t *pgdp = pgd_offset(current->mm, addr), pgd = pgdp_get(pgdp);
	p4d_t *p4dp, p4d;
	pud_t *pudp, pud;
	pmd_t *pmdp, pmd;
	pte_t pte;

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
		return memory_of(pmd_access_permitted(pmd, true), pmd_special(pmd), pmd_page(pmd));
	pte = ptep_get_lockless(pte_offset_kernel(&pmd, addr));
	if (!pte_present(pte))
		return EXT_MEMORY_UNKNOWN;
	return memory_of(pte_access_permitted(pte, true), pte_special(pte), pte_page(pte));
}

enum ext_memory ext_memory_at(unsigned long addr)
{
	enum ext_memory memory;
	unsigned long flags;

	addr = untagged_addr(addr);
	if (!current->mm || addr >= TASK_SIZE)
		return EXT_MEMORY_UNKNOWN;
	/* As for pin_user_pages_fast(): no page table is freed while interrupts are disabled. */
	local_irq_save(flags);
	memory = ext_native_memory_at(addr);
	if (memory == EXT_MEMORY_UNKNOWN)
		memory = look_up(addr);
	local_irq_restore(flags);
	return memory;
}

#else

enum ext_memory ext_memory_at(unsigned long addr)
{
	return EXT_MEMORY_UNKNOWN;
}

#endif
