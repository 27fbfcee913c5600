/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared by the files of the library. */
#ifndef DM_H
#define DM_H

#include <stdbool.h>

#include <iopm.h>

struct dm {
	struct iopm_dm base;
	uint64_t length;	/* as requested */
	size_t size;		/* of the mapping */
	char *addr;		/* the address that is registered; nothing accesses it */
};

static inline struct dm *to_dm(struct iopm_dm *base)
{
	return (struct dm *)base;
}

/* Returns whether [@offset, @offset + @length) lies in @dm. */
static inline bool dm_has(const struct dm *dm, uint64_t offset, uint64_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

#endif /* DM_H */
