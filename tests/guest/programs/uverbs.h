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

/*
 * Queues of the test adapter (tests/adapter/queue.rs), whose memory the process allocates and the driver pins.
 */
enum queue_kind {
	QUEUE_NONE,
	QUEUE_CQ,		/* the buffer of a CQ, by its address in the driver's request */
	QUEUE_CQ_VA,		/* by its address in an attribute; that in the request is wrong */
	QUEUE_CQ_UMEM,		/* by its address in a buffer descriptor; likewise */
};

struct queue {
	uint32_t cq;		/* the handle */
	uint32_t key;		/* of the memory, for the adapter's commands */
};

/* QUEUE_NONE for an unknown name. */
enum queue_kind queue_kind(const char *name);

/* Both return 0, or -1 with errno set. */
int queue_create(struct ibv_context *context, enum queue_kind kind, void *addr, size_t length,
		 struct queue *queue);
int queue_destroy(struct ibv_context *context, const struct queue *queue);

#endif /* UVERBS_H */
