// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/device.h. */
#include <linux/device.h>

#include "compat.h"
#include "helpers.h"

const char *ext_dev_name(const struct device *dev)
{
	return dev_name(dev);
}

bool ext_device_trylock(struct device *dev)
{
	return device_trylock(dev);
}

void ext_device_unlock(struct device *dev)
{
	device_unlock(dev);
}

bool ext_device_has_override(struct device *dev)
{
	return compat_has_driver_override(dev);
}

bool ext_device_override_is(struct device *dev, const char *driver)
{
	return compat_driver_override_is(dev, driver);
}

/* An empty @driver removes the override. */
int ext_device_set_override(struct device *dev, const char *driver)
{
	return compat_set_driver_override(dev, driver);
}
