// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/memremap.h. */
#include <linux/memremap.h>
#include <linux/mm.h>

#include "helpers.h"

bool ext_is_pci_p2pdma_page(struct page *page)
{
	return is_pci_p2pdma_page(page);
}
