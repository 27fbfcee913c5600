/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the C helpers, the logic in C, and headers with inline functions. */
#include <linux/anon_inodes.h>
#include <linux/magic.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include "../helpers/helpers.h"
#include "../c/logic.h"
