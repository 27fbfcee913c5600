// SPDX-License-Identifier: GPL-2.0
/* Log lines that a user can cause, for rust/log.rs: 10 in 5 seconds for a module. */
#include <linux/ratelimit.h>

bool ext_log_allowed(void);

bool ext_log_allowed(void)
{
	static DEFINE_RATELIMIT_STATE(rs, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&rs);
}
