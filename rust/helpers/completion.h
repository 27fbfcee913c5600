/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/completion.h>
#include <linux/jiffies.h>

static inline bool ext_wait_for_completion_timeout(struct completion *done, unsigned int ms)
{
	return wait_for_completion_timeout(done, msecs_to_jiffies(ms)) != 0;
}
