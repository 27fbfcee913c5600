// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/security.h. */
#include <linux/security.h>

#include "helpers.h"

int ext_locked_down_pci(void)
{
	return security_locked_down(LOCKDOWN_PCI_ACCESS);
}
