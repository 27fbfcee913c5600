// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/mmu_notifier.h. */
#include <linux/mmu_notifier.h>

#include "helpers.h"

void ext_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool ext_mmu_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}
