// SPDX-License-Identifier: GPL-2.0
/*
 * failed_probe_test - a PCI driver whose probe provides peer-to-peer memory, and then fails
 *
 * The driver core notifies the bus before it releases the resources of the failed driver. This
 * driver holds that release, while the memory still exists, as long as the parameter held is 1:
 * until 0 is written to it or a time limit. It binds functions whose driver_override names it.
 */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>

#define BAR 2
#define LIMIT (30 * HZ)

static int held;
module_param(held, int, 0644);
MODULE_PARM_DESC(held, "1 while the release of resources is held; 0 ends that");

static void hold(void *data)
{
	unsigned long end = jiffies + LIMIT;

	WRITE_ONCE(held, 1);
	while (READ_ONCE(held) && time_before(jiffies, end))
		msleep(10);
	WRITE_ONCE(held, 0);
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pci_p2pdma_add_resource(pdev, BAR, 0, 0);
	if (ret)
		return ret;
	/* The last one is released first. */
	ret = devm_add_action(&pdev->dev, hold, NULL);
	return ret ?: -ENODEV;
}

static const struct pci_device_id no_ids[] = { { } };

static struct pci_driver failed_probe_test = {
	.name = "failed_probe_test",
	.id_table = no_ids,
	.probe = probe,
};

module_pci_driver(failed_probe_test);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A driver that cannot be bound");
