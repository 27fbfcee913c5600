/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the C helpers, and the logic in C. */
#include <linux/anon_inodes.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/mm_types.h>
#include <linux/pci.h>
#include "../helpers/helpers.h"
#include "../c/logic.h"
