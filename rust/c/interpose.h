/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The path of host memory through the interposed verbs, and the objects by which the verbs find the
 * hooks of a device. Used by bindgen and by interpose.c.
 */
#ifndef EXT_INTERPOSE_H
#define EXT_INTERPOSE_H

#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/types.h>

#include "logic.h"

struct ext_hook_data;
struct ib_device;
struct ib_dmah;
struct ib_mr;
struct ib_pd;
struct ib_udata;

typedef struct ib_mr *ext_reg_user_mr_fn(struct ib_pd *pd, u64 start, u64 length, u64 iova,
					 int access, struct ib_dmah *dmah, struct ib_udata *udata);
typedef int ext_dereg_mr_fn(struct ib_mr *mr, struct ib_udata *udata);

/* When the hooks are asked about a registration. */
enum ext_dispatch {
	EXT_DISPATCH_CLIENTS_FIRST,	/* hooks decide whether the driver is called */
	EXT_DISPATCH_DRIVER_FIRST,	/* if the driver fails, or cannot pin the memory */
	EXT_DISPATCH_DRIVER_ONLY,
	/* The other bits count the address spaces. */
	EXT_DISPATCH_MASK = 3,
	EXT_DISPATCH_WANTED = 4,
};

/* The number of counts of address spaces, as a power of two. */
#define EXT_DISPATCH_SPACE_BITS 10

struct ext_dispatch_cell {
	/* An enum ext_dispatch, and the number of address spaces that want EXT_DISPATCH_DRIVER_FIRST. */
	u32 word;
	/* These address spaces, by the hash of the mm_struct. */
	u32 spaces[1 << EXT_DISPATCH_SPACE_BITS];
};

/* Returns the number of the count of an address space. */
static __always_inline u32 ext_dispatch_space(unsigned long mm)
{
	return hash_long(mm, EXT_DISPATCH_SPACE_BITS);
}

/* Returns the value for tasks of an address space. */
static __always_inline enum ext_dispatch ext_dispatch_of(const struct ext_dispatch_cell *cell, unsigned long mm)
{
	u32 word = READ_ONCE(cell->word);

	if (likely(word < EXT_DISPATCH_WANTED))
		return word;
	word &= EXT_DISPATCH_MASK;
	if (word == EXT_DISPATCH_DRIVER_ONLY && READ_ONCE(cell->spaces[ext_dispatch_space(mm)]))
		return EXT_DISPATCH_DRIVER_FIRST;
	return word;
}

/* The verbs whose calls are counted together. */
enum ext_verbs {
	EXT_VERBS_REGISTERING,	/* reg_user_mr and rereg_user_mr */
	EXT_VERBS_ENDING,	/* dereg_mr and dealloc_ucontext */
	EXT_VERBS,
};

/* The first part of the data of a device. Constant while the device is in the table. */
struct ext_hook_data {
	const struct ib_device *dev;
	/* In the table of all devices. */
	struct hlist_node node;
	/* The calls in flight, by enum ext_verbs. */
	struct ext_inflight *calls[EXT_VERBS];
	const struct ext_dispatch_cell *dispatch;
	/* A filter of the keys of the MRs that the hooks deregister. */
	const u32 *keys;
	/* The driver's functions. */
	ext_reg_user_mr_fn *reg_user_mr;
	ext_dereg_mr_fn *dereg_mr;
};

/*
 * The functions that call the hooks. @data counts the call. If @data is NULL, the device has no hooks any
 * more, and the function calls the driver. @memory: an enum ext_memory, a hint what is at @start.
 */
struct ext_interposer {
	struct ib_mr *(*reg_user_mr)(struct ext_hook_data *data, struct ib_pd *pd, u64 start,
				     u64 length, u64 iova, int access, struct ib_dmah *dmah,
				     struct ib_udata *udata, u32 memory);
	/* The driver's reg_user_mr() has failed with @error. @data is not NULL. */
	struct ib_mr *(*reg_failed)(struct ext_hook_data *data, struct ib_pd *pd, u64 start,
				    u64 length, u64 iova, int access, struct ib_dmah *dmah,
				    struct ib_udata *udata, int error);
	int (*dereg_mr)(struct ext_hook_data *data, struct ib_mr *mr, struct ib_udata *udata);
};

/* Sets the functions. No call may be in ext_reg_user_mr() or ext_dereg_mr(). */
void ext_interposer_set(const struct ext_interposer *functions);

/* Adds @data to the table. It is freed an RCU grace period after ext_hook_data_del(). */
void ext_hook_data_add(struct ext_hook_data *data);
void ext_hook_data_del(struct ext_hook_data *data);
/*
 * Counts a call of @verbs in the data of @dev, and returns the data. NULL if there is none, or if these
 * verbs are closed. Reads nothing older than what the caller has read before.
 */
struct ext_hook_data *ext_hook_data_get(const struct ib_device *dev, enum ext_verbs verbs);
/* Ends the call. Does nothing if @data is NULL. */
void ext_hook_data_put(struct ext_hook_data *data, enum ext_verbs verbs);

/* The operations of a device. Memory that they leave to the driver costs little more than its own. */
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata);
int ext_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);

#endif
