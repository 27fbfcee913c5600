/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/compiler.h>
#include <linux/memcontrol.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

/* Returns whether the memory cgroup of the caller, and all parents, are not near the limit. */
static inline bool ext_memcg_has_ample_room(unsigned long bytes)
{
#ifdef CONFIG_MEMCG
	/* Each CPU may have charged MEMCG_CHARGE_BATCH pages in advance. */
	unsigned long pages = DIV_ROUND_UP(bytes, PAGE_SIZE) + MEMCG_CHARGE_BATCH;
	struct page_counter *counter;
	bool ample = true;

	if (mem_cgroup_disabled())
		return true;
	rcu_read_lock();
	for (counter = &mem_cgroup_from_task(current)->memory; counter && ample;
	     counter = counter->parent)
		ample = page_counter_read(counter) + pages <= READ_ONCE(counter->max);
	rcu_read_unlock();
	return ample;
#else
	return true;
#endif
}

/*
 * Returns whether the memory cgroup of the caller has headroom for @bytes. A plain allocation above
 * the limit invokes the OOM killer; the allocation here reclaims, and fails.
 */
static inline bool ext_memcg_has_headroom(unsigned long bytes)
{
	void *probe;
	bool has_room;

	/* An allocation may have to clear the memory, so the counters are read first. */
	if (ext_memcg_has_ample_room(bytes))
		return true;
	probe = kmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	has_room = probe != NULL;
	OPTIMIZER_HIDE_VAR(probe);
	kfree(probe);
	return has_room;
}
