/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of ib_uverbs that libibverbs does not offer for every device: its functions
 * need support by the device's user-space driver. All return 0, or -1 with errno set.
 */
#ifndef UVERBS_H
#define UVERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_user_ioctl_cmds.h>

/* The result of a registration. */
struct keys {
	uint32_t handle, lkey, rkey;
};

/* @flags: IBV_REREG_MR_CHANGE_*; the kernel ignores the arguments of other changes. */
int uverbs_rereg_mr(struct ibv_context *context, struct keys *keys, int flags,
		    uint64_t start, uint64_t length, uint32_t pd, int access);

/* @driver: the RDMA_DRIVER_* of the kernel's device. */
int uverbs_reg_dmabuf_mr(struct ibv_context *context, uint32_t driver, uint32_t pd,
			 int fd, uint64_t offset, uint64_t length, uint64_t iova,
			 int access, struct keys *keys);
int uverbs_dereg_mr(struct ibv_context *context, const struct keys *keys);

/* UVERBS_METHOD_REG_MR; ibv_reg_mr() uses the older write command. */
int uverbs_reg_mr(struct ibv_context *context, uint32_t driver, uint32_t pd, uint64_t addr,
		  uint64_t length, int access, struct keys *keys);

/* A command of the write interface, which counts lengths in words of 4 bytes. */
int uverbs_command(struct ibv_context *context, void *cmd, size_t size, uint32_t number,
		   size_t response);

struct ib_uverbs_attr uverbs_attr(int id, size_t len, uint64_t data);

/* A method of the ioctl interface, with @n attributes, 16 at most. The first one is the new object. */
int uverbs_ioctl(struct ibv_context *context, uint32_t driver, int object, int method,
		 const struct ib_uverbs_attr *attrs, size_t n, uint32_t *handle);

#endif /* UVERBS_H */
