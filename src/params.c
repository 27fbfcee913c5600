// SPDX-License-Identifier: GPL-2.0
/* The module parameters that are strings. */
#include <linux/module.h>
#include <linux/string.h>

#include "../rust/helpers/params.h"

static char *backend;
module_param(backend, charp, 0444);
MODULE_PARM_DESC(backend, "How devices are served: [DEVICE:]auto|dma_buf|fast_reg|none[,...] (default: auto)");

const char *ext_module_param_str(const char *name)
{
	return strcmp(name, "backend") ? NULL : backend;
}
