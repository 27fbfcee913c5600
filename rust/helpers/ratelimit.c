// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/ratelimit.h. */
#include <linux/ratelimit.h>

#include "helpers.h"

/* Ten lines in five seconds: the file is linked into each module separately. */
bool ext_log_allowed(void)
{
	static DEFINE_RATELIMIT_STATE(rs, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&rs);
}
