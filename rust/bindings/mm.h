/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads for rust/bindings_mm.rs. */
#include <linux/anon_inodes.h>
#include <linux/mm_types.h>
#include <linux/pci.h>
#include "../helpers/mm.h"
