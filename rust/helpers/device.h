/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/device.h>
#include <linux/device/class.h>
#include <linux/string.h>

static inline bool ext_device_has_override(struct device *dev)
{
	return device_has_driver_override(dev);
}

static inline bool ext_device_override_is(struct device *dev, const char *driver)
{
	const struct device_driver drv = { .name = driver };

	return device_match_driver_override(dev, &drv) > 0;
}

/* An empty @driver removes the override. */
static inline int ext_device_set_override(struct device *dev, const char *driver)
{
	return device_set_driver_override(dev, driver);
}

/* Returns whether a device below @dev is in the class @name. The depth is that of the tree of devices. */
static inline int ext_device_has_class_below(struct device *dev, void *name)
{
	return (dev->class && !strcmp(dev->class->name, name)) ||
	       device_for_each_child(dev, name, ext_device_has_class_below);
}
