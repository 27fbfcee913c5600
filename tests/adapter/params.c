// SPDX-License-Identifier: GPL-2.0
/* The module parameters that are strings. */
#include <linux/module.h>

static char *modes;
module_param(modes, charp, 0444);
MODULE_PARM_DESC(modes, "how edu0, edu1, ... get peer memory: dma-bufs that are dynamic, revocable or pinned, or va (no dma-bufs), separated by commas; the last one is for all other devices (default: dynamic)");
