// SPDX-License-Identifier: GPL-2.0
/*
 * Accumulates the coverage counters of the modules at each unload, after their exit functions, in
 * /sys/kernel/debug/peer_mem_coverage/MODULE.
 */
#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

struct counters {
	const char *module, *start_name, *end_name;
	u64 *start, *end;
	struct debugfs_blob_wrapper sum;
};

#define COUNTERS(name) \
	{ .module = name, .start_name = name "_counters_start", .end_name = name "_counters_end" }

static struct counters modules[] = {
	COUNTERS("ib_peer_mem"),
	COUNTERS("io_peer_mem"),
	COUNTERS("peer_mem_kunit"),
};

static struct dentry *dir;

/* The address is valid until the module is freed. */
static u64 *symbol(const char *name)
{
	u64 *found = __symbol_get(name);

	if (found)
		__symbol_put(name);
	return found;
}

static void accumulate(struct counters *c)
{
	size_t i, n;

	if (!c->start || !c->end || c->end <= c->start)
		return;
	n = c->end - c->start;
	if (!c->sum.data) {
		c->sum.data = kvcalloc(n, sizeof(u64), GFP_KERNEL);
		if (!c->sum.data)
			return;
		c->sum.size = n * sizeof(u64);
		debugfs_create_blob(c->module, 0400, dir, &c->sum);
	}
	for (i = 0; i < n && i < c->sum.size / sizeof(u64); i++)
		((u64 *)c->sum.data)[i] += c->start[i];
	c->start = NULL;
}

static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modules); i++) {
		struct counters *c = &modules[i];

		if (strcmp(mod->name, c->module))
			continue;
		if (state == MODULE_STATE_LIVE) {
			c->start = symbol(c->start_name);
			c->end = symbol(c->end_name);
		} else if (state == MODULE_STATE_GOING) {
			accumulate(c);
		}
	}
	return NOTIFY_OK;
}

static struct notifier_block nb = { .notifier_call = on_module };

static int __init collect_init(void)
{
	dir = debugfs_create_dir("peer_mem_coverage", NULL);
	return register_module_notifier(&nb);
}

static void __exit collect_exit(void)
{
	size_t i;

	unregister_module_notifier(&nb);
	debugfs_remove(dir);
	for (i = 0; i < ARRAY_SIZE(modules); i++)
		kvfree(modules[i].sum.data);
}

module_init(collect_init);
module_exit(collect_exit);
MODULE_DESCRIPTION("Coverage counters of the modules of this project");
MODULE_LICENSE("GPL");
