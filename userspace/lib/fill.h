/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Structures that may get more members: the caller passes the size that it knows. */
#ifndef FILL_H
#define FILL_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <iopm.h>

/* The offset of the end of @member: the size of the structure of version 1.0. */
#define end_of(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/*
 * Copies @have, of @have_size bytes, to the caller's structure of @to_size bytes. Members
 * that the library does not know are 0. Returns EINVAL if @to_size is less than @least.
 */
static inline int fill(void *to, size_t to_size, const void *have, size_t have_size, size_t least)
{
	if (to_size < least)
		return EINVAL;
	memset(to, 0, to_size);
	memcpy(to, have, to_size < have_size ? to_size : have_size);
	return 0;
}

#endif /* FILL_H */
