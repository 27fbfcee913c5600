/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of ib_uverbs that libibverbs does not give for every device: its own
 * functions need the device's user-space driver to know of them. All return 0, or
 * -1 with errno set.
 */
#ifndef UVERBS_H
#define UVERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* What a registration gives. */
struct keys {
	uint32_t handle, lkey, rkey;
};

/* @flags: IBV_REREG_MR_CHANGE_*; what they do not name is not looked at. */
int uverbs_rereg_mr(struct ibv_context *context, struct keys *keys, int flags,
		    uint64_t start, uint64_t length, uint32_t pd, int access);

/* The driver id is that of the kernel's device. */
int uverbs_reg_dmabuf_mr(struct ibv_context *context, uint32_t driver, uint32_t pd,
			 int fd, uint64_t offset, uint64_t length, uint64_t iova,
			 int access, struct keys *keys);
int uverbs_dereg_mr(struct ibv_context *context, const struct keys *keys);

/* UVERBS_METHOD_REG_MR, where ibv_reg_mr() uses the older command. */
int uverbs_reg_mr(struct ibv_context *context, uint32_t driver, uint32_t pd, uint64_t addr,
		  uint64_t length, int access, struct keys *keys);

#endif /* UVERBS_H */
