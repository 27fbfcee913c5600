/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the library share. */
#ifndef DM_H
#define DM_H

#include <stdbool.h>

#include <iopm.h>

struct dm {
	struct iopm_dm base;
	uint64_t length;	/* as it was asked for */
	size_t size;		/* of the mapping */
	char *addr;		/* NULL where it could not be mapped again */
};

static inline struct dm *to_dm(struct iopm_dm *base)
{
	return (struct dm *)base;
}

/* Are [@offset, @offset + @length) bytes of @dm? */
static inline bool dm_has(const struct dm *dm, uint64_t offset, uint64_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/* Before the first copy: see copy.c. */
void copy_init(void);

#endif /* DM_H */
