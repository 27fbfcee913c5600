// SPDX-License-Identifier: GPL-2.0
/* The module parameters. All are strings that options.rs checks and parses. */
#include <linux/array_size.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

/*
 * Defined by param_function! in Rust: the first returns -EINVAL, and logs a line, if @value is not valid
 * for the parameter @name. The second is called with the lock of the parameters held, after @name has
 * been set to @value.
 */
int ext_module_param_check(const char *name, const char *value);
int ext_module_param_apply(const char *name, const char *value);

/*
 * Sets and applies a parameter, or keeps its value if the new one is invalid. Holds the
 * parameter lock.
 */
static int set_checked(const char *val, const struct kernel_param *kp)
{
	char *text = kstrdup(val, GFP_KERNEL), *value;
	int err;

	if (!text)
		return -ENOMEM;
	/* echo appends a newline. */
	value = strim(text);
	err = ext_module_param_check(kp->name, value);
	if (!err)
		err = param_set_charp(value, kp);
	if (!err) {
		err = ext_module_param_apply(kp->name, value);
		/* It was not set: only the first registration of the client fails. */
		if (err)
			param_set_charp("", kp);
	}
	kfree(text);
	return err;
}

static const struct kernel_param_ops checked = {
	.set = set_checked,
	.get = param_get_charp,
	.free = param_free_charp,
};

#define CHECKED_PARAM(name, mode, description)			\
	static char *name = "";					\
	module_param_cb(name, &checked, &name, mode);		\
	__MODULE_PARM_TYPE(name, "charp");			\
	MODULE_PARM_DESC(name, description)

MODULE_VERSION(PEER_MEM_VERSION);

/* Read-only: new_id adds ids at run time. */
CHECKED_PARAM(ids, 0444, "PCI functions to bind to: vendor:device[,...], in hexadecimal (default: none)");
CHECKED_PARAM(devices, 0444, "PCI functions to bind to: [domain:]bus:device.function[,...] (default: none)");
CHECKED_PARAM(bars, 0644, "BARs to use: n[,n...] (default: each prefetchable BAR of at least 2 MiB, or 4 MiB with pages of 16 KiB, of memory controllers and of QEMU's ivshmem)");
CHECKED_PARAM(ranges, 0644, "Parts of BARs to use: BAR:offset:size[,...], in bytes (default: all of each BAR)");
CHECKED_PARAM(mmio, 0644, "Mappings of BARs without struct pages that can be registered: sysfs (or 1): of resourceN in sysfs, any: of any file (default: 0)");
CHECKED_PARAM(p2pmem, 0644, "1: peer-to-peer memory of other drivers can be registered also while no function is bound (default: 0)");
CHECKED_PARAM(busmaster, 0644, "1: keep bus mastering of functions as it is, 0: disable it (default: 0)");
CHECKED_PARAM(publish, 0644, "1: other drivers can allocate from the BARs, 0: they cannot (default: 1 for prefetchable BARs of memory controllers and of QEMU's ivshmem)");
CHECKED_PARAM(zero, 0644, "When BARs are cleared: [BAR:]never|free|alloc[,...] (default: alloc)");
CHECKED_PARAM(quota, 0644, "Bytes of each BAR that one user may have (default: all)");
