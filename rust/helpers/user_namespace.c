// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/user_namespace.h. */
#include <linux/cred.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "helpers.h"

/*
 * Returns the user whom the calling process counts as: in a user namespace the one who created the
 * outermost namespace, as for the limits on namespaces, else its real user. In a namespace a user may
 * have any number of subordinate uids.
 */
u32 ext_current_owner(void)
{
	struct user_namespace *ns = current_user_ns();

	if (!ns->level)
		return __kuid_val(current_uid());
	/* A namespace holds those around it. */
	while (ns->level > 1)
		ns = ns->parent;
	return __kuid_val(ns->owner);
}
