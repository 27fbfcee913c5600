/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the C helpers, the logic in C, and headers with inline functions. */
#include <linux/anon_inodes.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/memremap.h>
#include <linux/mmu_notifier.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include "../helpers/helpers.h"
#include "../c/logic.h"
