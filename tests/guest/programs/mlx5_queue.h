/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue pair with its own completion queue, whose buffers and doorbell records lie in
 * memory that the program chooses. A failure that the driver may have a reason for prints
 * the errno; any other one ends the program.
 */
#ifndef MLX5_QUEUE_H
#define MLX5_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

/* Memory that is handed out from its start on. */
struct area {
	char *addr;
	size_t length, used;
};

/*
 * Returns @size bytes at a multiple of @alignment, all zero, as a doorbell record of earlier
 * queues must not be taken for that of new ones. NULL with errno set: no more.
 */
void *area_take(struct area *area, size_t size, size_t alignment);

/* A message: a part of an MR. */
struct message {
	void *addr;
	uint32_t length, lkey;
};

struct queue;

/* How queues are made, and used. */
struct queue_ops {
	const char *name;
	/* Returns NULL with errno set on failure. */
	struct queue *(*create)(struct rdma *r, struct area *area);
	struct address (*address)(struct queue *queue);
	void (*connect)(struct queue *queue, const struct address *to);
	void (*receive)(struct queue *queue, const struct message *to);
	/* SEND; RDMA WRITE to @remote_addr if @rkey is not 0. */
	void (*send)(struct queue *queue, const struct message *from, uint64_t remote_addr,
		     uint32_t rkey);
	/* Returns the number of completions, 0 or 1. A failed one ends the program. */
	int (*poll)(struct queue *queue);
	void (*destroy)(struct queue *queue);
};

/* Made by the verbs, with the allocators of a parent domain. */
extern const struct queue_ops verbs_queue;
/* Made by DEVX commands, on a umem; work requests and doorbells by this program. */
extern const struct queue_ops devx_queue;

#endif /* MLX5_QUEUE_H */
