// SPDX-License-Identifier: GPL-2.0
/* Helpers for rdma/ib_verbs.h. */
#include <rdma/ib_verbs.h>

#include "helpers.h"

void ext_ib_device_get(struct ib_device *device)
{
	refcount_inc(&device->refcount);
}
