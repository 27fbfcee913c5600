// SPDX-License-Identifier: GPL-2.0
/*
 * p2pmem_user_test - another driver that allocates published peer-to-peer memory
 *
 * Has 64 KiB of the function bdf=DOMAIN:BUS:DEVICE.FUNCTION while the parameter has is 1: until 0
 * is written to it, which frees the memory. No byte of it is 0 then. Reading can_allocate tries to
 * allocate more. With claim=1 it claims BAR 2 of the function instead, as a driver does that is not
 * bound to it. With late=1 it tries to allocate each time when the driver of the function is unbound,
 * between the end of the memory map and the end of the kernel's pool; late_result has the number of
 * attempts and that of successes.
 */
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>
#include <linux/sizes.h>

static char *bdf = "";
module_param(bdf, charp, 0444);
MODULE_PARM_DESC(bdf, "the PCI function");

static bool claim;
module_param(claim, bool, 0444);
MODULE_PARM_DESC(claim, "claim BAR 2 of the function");

static bool late;
module_param(late, bool, 0444);
MODULE_PARM_DESC(late, "allocate when the memory map is gone");

static struct pci_dev *function;
static void *memory;
static unsigned int late_attempts, late_successes;

static int get_has(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", memory != NULL);
}

static int set_has(const char *value, const struct kernel_param *kp)
{
	void *freed = xchg(&memory, NULL);

	if (freed)
		pci_free_p2pmem(function, freed, SZ_64K);
	return 0;
}

static const struct kernel_param_ops has_ops = { .get = get_has, .set = set_has };
module_param_cb(has, &has_ops, NULL, 0644);

static int get_can_allocate(char *buffer, const struct kernel_param *kp)
{
	void *more = pci_alloc_p2pmem(function, SZ_4K);

	if (more)
		pci_free_p2pmem(function, more, SZ_4K);
	return sysfs_emit(buffer, "%d\n", more != NULL);
}

static const struct kernel_param_ops can_allocate_ops = { .get = get_can_allocate };
module_param_cb(can_allocate, &can_allocate_ops, NULL, 0444);

static int get_late_result(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%u %u\n", late_attempts, late_successes);
}

static const struct kernel_param_ops late_result_ops = { .get = get_late_result };
module_param_cb(late_result, &late_result_ops, NULL, 0444);

static int allocate_late(struct kprobe *probe, struct pt_regs *regs)
{
	if (regs_get_kernel_argument(regs, 0) != (unsigned long)function)
		return 0;
	late_attempts++;
	if (pci_alloc_p2pmem(function, SZ_4K))
		late_successes++;
	return 0;
}

/* The last step of devres for peer-to-peer memory: forgets the pool. */
static struct kprobe late_probe = {
	.symbol_name = "pci_p2pdma_release",
	.pre_handler = allocate_late,
};

static int __init p2pmem_user_test_init(void)
{
	unsigned int domain, bus, slot, func;
	int ret;

	if (sscanf(bdf, "%x:%x:%x.%u", &domain, &bus, &slot, &func) != 4)
		return -EINVAL;
	function = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
	if (!function)
		return -ENODEV;
	if (claim && !pci_request_region(function, 2, KBUILD_MODNAME))
		return 0;
	if (late) {
		ret = register_kprobe(&late_probe);
		if (ret)
			pci_dev_put(function);
		return ret;
	}
	memory = claim ? NULL : pci_alloc_p2pmem(function, SZ_64K);
	if (memory) {
		memset_io((void __iomem *)memory, 0x5a, SZ_64K);
		return 0;
	}
	pci_dev_put(function);
	return -ENOMEM;
}

static void __exit p2pmem_user_test_exit(void)
{
	if (claim)
		pci_release_region(function, 2);
	if (late)
		unregister_kprobe(&late_probe);
	set_has(NULL, NULL);
	pci_dev_put(function);
}

module_init(p2pmem_user_test_init);
module_exit(p2pmem_user_test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A driver that uses published peer-to-peer memory");
