/* SPDX-License-Identifier: GPL-2.0 */
/* The structures of the ioctls: fuzz_ioctl.c makes the calls. */
#ifndef FUZZ_IOCTL_H
#define FUZZ_IOCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ib_peer_mem.h>
#include <io_peer_mem.h>

#include "fuzz.h"

union arg {
	struct io_peer_mem_range range;
	struct io_peer_mem_nearest nearest;
	struct io_peer_mem_dm_alloc alloc;
	struct io_peer_mem_dm_capacity capacity;
	struct io_peer_mem_dm_info info;
	struct io_peer_mem_dm_free free;
	struct ib_peer_mem_export export;
	struct ib_peer_mem_name name;
	unsigned char bytes[64];
	uint32_t words[16];
	uint64_t longs[8];
};

/* --- fuzz_ioctl.c --- */

bool zero(const void *from, size_t size);

/* --- fuzz_bar.c: those of a BAR's device and of allocations --- */

/* Fills in a valid structure, all of it zero but the version. @f: the file of the call, or NULL. */
void bar_make(struct thread *t, enum op op, const struct file *f, union arg *a);
/* Returns whether the structure is valid by the documentation. @bar: NULL: not known. */
bool bar_right(enum op op, const union arg *a, const struct bar *bar);
/* Checks the answer @a to @q. */
void bar_answered(struct thread *t, enum op op, struct file *f, const union arg *q,
		  const union arg *a);

/* --- fuzz_control.c: those of /dev/ib_peer_mem, likewise --- */

void control_make(struct thread *t, enum op op, union arg *a);
/*
 * Changes a range or a descriptor of NAME and UNNAME that is in a field or of a dma-buf of a field:
 * the thread of a field knows its names.
 */
void control_spare_fields(union arg *a);
bool control_right(enum op op, const union arg *a);
void control_answered(struct thread *t, enum op op, const union arg *q, const union arg *a);

#endif /* FUZZ_IOCTL_H */
