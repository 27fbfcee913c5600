// SPDX-License-Identifier: GPL-2.0
/* Queues by the verbs. libmlx5 takes their buffers and doorbell records from an area. */
#include <err.h>
#include <errno.h>
#include <stdlib.h>

#include <infiniband/mlx5dv.h>

#include "mlx5_queue.h"

#define DEPTH 64

struct queue {
	struct rdma *rdma;
	struct area *area;
	struct ibv_pd *domain;
	/* The part that samples/verbs connects: near is the queue pair. */
	struct pair pair;
	/* How often libmlx5 has asked for memory. */
	int rings, records;
};

static void *allocate(struct ibv_pd *domain, void *context, size_t size, size_t alignment,
		      uint64_t type)
{
	struct queue *queue = context;

	(void)domain;
	switch (type) {
	case MLX5DV_RES_TYPE_QP:
	case MLX5DV_RES_TYPE_CQ:
		queue->rings++;
		break;
	case MLX5DV_RES_TYPE_DBR:
		queue->records++;
		break;
	default:
		return IBV_ALLOCATOR_USE_DEFAULT;
	}
	return area_take(queue->area, size, alignment);
}

/* The area is released as a whole. */
static void keep(struct ibv_pd *domain, void *context, void *addr, uint64_t type)
{
	(void)domain;
	(void)context;
	(void)addr;
	(void)type;
}

static struct ibv_cq *create_cq(struct queue *queue)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = queue->domain,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(queue->rdma->context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *create_qp(struct queue *queue)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = queue->pair.cq,
		.recv_cq = queue->pair.cq,
		.cap = { .max_send_wr = DEPTH / 4, .max_recv_wr = DEPTH / 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(queue->domain, &attr);
}

static void destroy(struct queue *queue)
{
	if (queue->pair.near && (errno = ibv_destroy_qp(queue->pair.near)))
		err(1, "ibv_destroy_qp");
	if (queue->pair.cq && (errno = ibv_destroy_cq(queue->pair.cq)))
		err(1, "ibv_destroy_cq");
	if (queue->domain && (errno = ibv_dealloc_pd(queue->domain)))
		err(1, "ibv_dealloc_pd of a parent domain");
	free(queue);
}

static struct queue *create(struct rdma *r, struct area *area)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	struct ibv_parent_domain_init_attr attr = {
		.pd = r->pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = keep,
		.pd_context = queue,
	};
	int saved;

	if (!queue)
		err(1, "calloc");
	queue->rdma = r;
	queue->area = area;
	queue->domain = ibv_alloc_parent_domain(r->context, &attr);
	if (!queue->domain)
		err(1, "ibv_alloc_parent_domain");
	queue->pair.cq = create_cq(queue);
	if (queue->pair.cq)
		queue->pair.near = create_qp(queue);
	if (queue->pair.near) {
		if (queue->rings != 2 || queue->records != 2)
			errx(1, "libmlx5 took %d rings and %d doorbell records, not 2 and 2",
			     queue->rings, queue->records);
		return queue;
	}
	saved = errno;
	destroy(queue);
	errno = saved;
	return NULL;
}

static struct address address(struct queue *queue)
{
	return pair_address(queue->rdma, &queue->pair);
}

static void connect_to(struct queue *queue, const struct address *to)
{
	pair_connect(queue->rdma, &queue->pair, to);
}

static struct ibv_sge sge(const struct message *message)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)message->addr,
		.length = message->length,
		.lkey = message->lkey,
	};
}

static void receive(struct queue *queue, const struct message *to)
{
	struct ibv_sge room = sge(to);
	struct ibv_recv_wr wr = { .sg_list = &room, .num_sge = 1 }, *bad;

	if ((errno = ibv_post_recv(queue->pair.near, &wr, &bad)))
		err(1, "ibv_post_recv");
}

static void send(struct queue *queue, const struct message *from, uint64_t remote_addr,
		 uint32_t rkey)
{
	struct ibv_sge data = sge(from);
	struct ibv_send_wr wr = {
		.opcode = rkey ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &data,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = remote_addr, .rkey = rkey },
	}, *bad;

	if ((errno = ibv_post_send(queue->pair.near, &wr, &bad)))
		err(1, "ibv_post_send");
}

static int poll(struct queue *queue)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(queue->pair.cq, 1, &wc);

	if (n < 0)
		errx(1, "ibv_poll_cq");
	if (n && wc.status != IBV_WC_SUCCESS)
		errx(1, "verbs completion: %s", ibv_wc_status_str(wc.status));
	return n;
}

const struct queue_ops verbs_queue = {
	.name = "verbs",
	.create = create,
	.address = address,
	.connect = connect_to,
	.receive = receive,
	.send = send,
	.poll = poll,
	.destroy = destroy,
};
