/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/ratelimit.h>

/* Ten lines in five seconds, in each module. */
static inline bool ext_log_allowed(void)
{
	static DEFINE_RATELIMIT_STATE(rs, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&rs);
}
