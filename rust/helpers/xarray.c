// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/xarray.h. */
#include <linux/xarray.h>

#include "helpers.h"

bool ext_key_set_may_contain(const struct ext_key_set *set, u32 key)
{
	if (ext_key_set_is_empty(set))
		return false;
	return xa_load((struct xarray *)&set->keys, key >> EXT_KEY_SET_SHIFT) ||
	       READ_ONCE(set->unknown);
}
