/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/cred.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

/*
 * Returns the uid to which the calling process is accounted. In a user namespace a user may have
 * any number of subordinate uids. So for a process in a namespace the uid is the creator of the
 * outermost namespace, as for the limits on namespaces; otherwise the real uid of the process.
 */
static inline u32 ext_current_owner(void)
{
	struct user_namespace *ns = current_user_ns();

	if (!ns->level)
		return __kuid_val(current_uid());
	/* A namespace holds references to all outer namespaces. */
	while (ns->level > 1)
		ns = ns->parent;
	return __kuid_val(ns->owner);
}
