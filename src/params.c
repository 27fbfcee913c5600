// SPDX-License-Identifier: GPL-2.0
/* The string module parameters. */
#include <linux/module.h>

static char *backend;
module_param(backend, charp, 0444);
MODULE_PARM_DESC(backend, "How devices are served: [DEVICE:]auto|dma_buf|umem|fast_reg|none[,...] (default: auto)");

static char *order;
module_param(order, charp, 0444);
MODULE_PARM_DESC(order, "When clients are asked: host_first|clients_first (default: host_first)");

static char *max_names;
module_param(max_names, charp, 0444);
MODULE_PARM_DESC(max_names, "Most ranges of a process that are named as a part of a dma-buf (default: 65536)");

static char *dmabuf_reg;
module_param(dmabuf_reg, charp, 0444);
MODULE_PARM_DESC(dmabuf_reg, "1: provide /dev/dmabuf_reg, for libfabric's dmabuf_peer_mem (default: 0)");
