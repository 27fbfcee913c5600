/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The path of host memory through the interposed verbs, and the objects by which the verbs find the
 * hooks of a device. Used by bindgen and by interpose.c.
 */
#ifndef EXT_INTERPOSE_H
#define EXT_INTERPOSE_H

#include <linux/types.h>

#include "helpers.h"

struct ib_device;
struct ib_dmah;
struct ib_mr;
struct ib_pd;
struct ib_udata;

typedef struct ib_mr *ext_reg_user_mr_fn(struct ib_pd *pd, u64 start, u64 length, u64 iova,
					 int access, struct ib_dmah *dmah, struct ib_udata *udata);
typedef int ext_dereg_mr_fn(struct ib_mr *mr, struct ib_udata *udata);

/* When the hooks are asked about a registration. */
enum ext_asked {
	EXT_ASKED_ALWAYS,	/* hooks decide whether the driver is called */
	EXT_ASKED_AFTER_DRIVER,	/* if the driver fails, or cannot pin the memory */
	EXT_ASKED_NEVER,
	/* The other bits count the users that want at least EXT_ASKED_AFTER_DRIVER. */
	EXT_ASKED_MASK = 3,
	EXT_ASKED_WANTED = 4,
};

/* The beginning of the data of a device. Only the gates and @node change. */
struct ext_gates {
	const struct ib_device *owner;
	/* Entry in the table of all devices. */
	struct hlist_node node;
	/* Gate 0 counts reg_user_mr and rereg_user_mr, gate 1 dereg_mr and dealloc_ucontext. */
	struct ext_calls gates[2];
	/* An enum ext_asked, and a count in the upper bits. */
	const u32 *asked;
	/* The keys of the MRs that the hooks deregister. */
	const struct ext_key_set *keys;
	/* Functions of the driver. */
	ext_reg_user_mr_fn *reg_user_mr;
	ext_dereg_mr_fn *dereg_mr;
};

/*
 * The functions that call the hooks. Except for @reg_failed, each function finds the data of the
 * device and counts the call.
 */
struct ext_interposer {
	ext_reg_user_mr_fn *reg_user_mr;
	ext_dereg_mr_fn *dereg_mr;
	/*
	 * Called when the driver's reg_user_mr() has failed with @error. The caller has already
	 * counted the call.
	 */
	struct ib_mr *(*reg_failed)(struct ext_gates *gates, struct ib_pd *pd, u64 start,
				    u64 length, u64 iova, int access, struct ib_dmah *dmah,
				    struct ib_udata *udata, int error);
};

/* Sets the functions. No call may be in ext_reg_user_mr() or ext_dereg_mr(). */
void ext_interposer_set(const struct ext_interposer *functions);

/*
 * Makes @gates available to ext_gates_enter(). After ext_gates_del() the owner must wait for an RCU
 * grace period before freeing @gates.
 */
void ext_gates_add(struct ext_gates *gates);
void ext_gates_del(struct ext_gates *gates);
/* Makes @gates available to the operations below, unless another device has the slot. */
void ext_gates_publish(struct ext_gates *gates);
void ext_gates_withdraw(struct ext_gates *gates);
/*
 * Counts a call in the gate number @gate of the object of @owner. Returns NULL if there is no such
 * object or if the gate is closed. The reads are ordered after earlier reads of the caller.
 */
struct ext_gates *ext_gates_enter(const struct ib_device *owner, unsigned int gate);

/*
 * Operations of a device. For host memory these functions add little to the cost of the driver's
 * functions.
 */
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata);
int ext_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);

/* Returns whether ext_dereg_mr() leaves no frame on the stack. If not, callers must be counted. */
bool ext_dereg_mr_leaves_no_frame(void);

#endif
