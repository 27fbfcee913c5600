// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/device.h. */
#include <linux/device.h>
#include <linux/device/class.h>
#include <linux/string.h>

#include "compat.h"
#include "helpers.h"

bool ext_device_has_override(struct device *dev)
{
	return device_has_driver_override(dev);
}

bool ext_device_override_is(struct device *dev, const char *driver)
{
	const struct device_driver drv = { .name = driver };

	return device_match_driver_override(dev, &drv) > 0;
}

/* The depth is that of the tree of devices. */
static int has_class(struct device *dev, void *name)
{
	return (dev->class && !strcmp(dev->class->name, name)) ||
	       device_for_each_child(dev, name, has_class);
}

/* Returns whether a device below @dev is in the class @name. */
bool ext_device_has_class_below(struct device *dev, const char *name)
{
	return device_for_each_child(dev, (void *)name, has_class) != 0;
}

/* An empty @driver removes the override. */
int ext_device_set_override(struct device *dev, const char *driver)
{
	return device_set_driver_override(dev, driver);
}
