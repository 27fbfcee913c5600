/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The path of host memory through the interposed verbs, and the objects by which the verbs find
 * the hooks of a device. Read by bindgen and by interpose.c.
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
	EXT_ASKED_ALWAYS,	/* they decide whether the driver is called */
	EXT_ASKED_AFTER_DRIVER,	/* if the driver fails, or cannot pin the memory */
	EXT_ASKED_NEVER,
	/* The rest of the word counts those who want EXT_ASKED_AFTER_DRIVER at least. */
	EXT_ASKED_MASK = 3,
	EXT_ASKED_WANTED = 4,
};

/* What begins the data of a device. Only the gates change. */
struct ext_gates {
	const struct ib_device *owner;
	/* In the table of all devices. */
	struct hlist_node node;
	/* The calls of reg_user_mr and rereg_user_mr; those of dereg_mr and dealloc_ucontext. */
	struct ext_calls gates[2];
	/* An enum ext_asked, and a count. */
	const u32 *asked;
	/* The keys of the MRs that the hooks deregister. */
	const struct ext_key_set *keys;
	/* The driver's. */
	ext_reg_user_mr_fn *reg_user_mr;
	ext_dereg_mr_fn *dereg_mr;
};

/* The functions that call the hooks. They find the data of a device and count the call. */
struct ext_interposer {
	ext_reg_user_mr_fn *reg_user_mr;
	ext_dereg_mr_fn *dereg_mr;
	/* For the errno of the driver's reg_user_mr. The call is counted already. */
	struct ib_mr *(*reg_failed)(struct ext_gates *gates, struct ib_pd *pd, u64 start,
				    u64 length, u64 iova, int access, struct ib_dmah *dmah,
				    struct ib_udata *udata, int error);
};

/* Sets the functions. No call may be in ext_reg_user_mr() or ext_dereg_mr(). */
void ext_interposer_set(const struct ext_interposer *functions);

/* Lets ext_gates_enter() find @gates. It is freed an RCU grace period after ext_gates_del(). */
void ext_gates_add(struct ext_gates *gates);
void ext_gates_del(struct ext_gates *gates);
/* Lets the operations below find it too, unless the slot of the device is taken. */
void ext_gates_publish(struct ext_gates *gates);
void ext_gates_withdraw(struct ext_gates *gates);
/*
 * Counts a call in @gate of the object of @owner. NULL if there is none or it is closed. Reads nothing
 * older than what the caller has read before.
 */
struct ext_gates *ext_gates_enter(const struct ib_device *owner, unsigned int gate);

/* Operations of a device. Memory that they leave to the driver costs little more than its own. */
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata);
int ext_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);

/* Returns whether ext_dereg_mr() leaves no frame on the stack. If not, it must not be used. */
bool ext_dereg_mr_leaves_no_frame(void);

#endif
