// SPDX-License-Identifier: GPL-2.0
/*
 * Accumulates the coverage counters of ib_peer_mem at each unload, after its exit
 * function, in /sys/kernel/debug/peer_mem_coverage.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/slab.h>

static u64 *start, *end;
static struct debugfs_blob_wrapper sum;
static struct dentry *file;

static void find_counters(void)
{
	/* The addresses are valid until the module is freed. */
	start = __symbol_get("ib_peer_mem_counters_start");
	if (start)
		__symbol_put("ib_peer_mem_counters_start");
	end = __symbol_get("ib_peer_mem_counters_end");
	if (end)
		__symbol_put("ib_peer_mem_counters_end");
}

static void accumulate(void)
{
	size_t i, n;

	if (!start || !end || end <= start)
		return;
	n = end - start;
	if (!sum.data) {
		sum.data = kvcalloc(n, sizeof(u64), GFP_KERNEL);
		if (!sum.data)
			return;
		sum.size = n * sizeof(u64);
		file = debugfs_create_blob("peer_mem_coverage", 0400, NULL, &sum);
	}
	for (i = 0; i < n && i < sum.size / sizeof(u64); i++)
		((u64 *)sum.data)[i] += start[i];
	start = NULL;
}

static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (strcmp(mod->name, "ib_peer_mem"))
		return NOTIFY_DONE;
	if (state == MODULE_STATE_LIVE)
		find_counters();
	else if (state == MODULE_STATE_GOING)
		accumulate();
	return NOTIFY_OK;
}

static struct notifier_block nb = { .notifier_call = on_module };

static int __init collect_init(void)
{
	return register_module_notifier(&nb);
}

static void __exit collect_exit(void)
{
	unregister_module_notifier(&nb);
	debugfs_remove(file);
	kvfree(sum.data);
}

module_init(collect_init);
module_exit(collect_exit);
MODULE_DESCRIPTION("Coverage counters of ib_peer_mem");
MODULE_LICENSE("GPL");
