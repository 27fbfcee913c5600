// SPDX-License-Identifier: GPL-2.0
/* The module parameters that are strings. */
#include <linux/module.h>
#include <linux/string.h>

#include "../../rust/helpers/mm.h"

static char *ids;
module_param(ids, charp, 0444);
MODULE_PARM_DESC(ids, "PCI functions to bind to: vendor:device[,vendor:device...], in hexadecimal");

static char *bars;
module_param(bars, charp, 0444);
MODULE_PARM_DESC(bars, "BARs to use: n[,n...] (default: each prefetchable memory BAR of at least 2 MiB)");

const char *ext_module_param_str(const char *name)
{
	if (!strcmp(name, "ids"))
		return ids;
	if (!strcmp(name, "bars"))
		return bars;
	return NULL;
}
