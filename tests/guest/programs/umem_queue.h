/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues of the test adapter (tests/adapter/queue.rs), whose memory the process
 * allocates and the driver pins.
 */
#ifndef UMEM_QUEUE_H
#define UMEM_QUEUE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

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

#endif /* UMEM_QUEUE_H */
