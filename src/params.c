// SPDX-License-Identifier: GPL-2.0
/* The string module parameters. */
#include <linux/module.h>
#include <linux/string.h>

#include "../rust/helpers/params.h"

static char *backend;
module_param(backend, charp, 0444);
MODULE_PARM_DESC(backend, "How devices are served: [DEVICE:]auto|dma_buf|umem|fast_reg|none[,...] (default: auto)");

static char *order;
module_param(order, charp, 0444);
MODULE_PARM_DESC(order, "When clients are asked: host_first|clients_first (default: host_first)");

const char *ext_module_param_str(const char *name)
{
	if (!strcmp(name, "backend"))
		return backend;
	if (!strcmp(name, "order"))
		return order;
	return NULL;
}
