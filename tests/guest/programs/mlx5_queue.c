// SPDX-License-Identifier: GPL-2.0
/*
 * mlx5_queue - queues of mlx5 whose buffers and doorbell records lie in device memory
 *
 * Two queue pairs, of one process, that are connected to each other. One sends a message, the
 * other one answers it by an RDMA WRITE. The queues, the doorbell records and the messages
 * are in MEMORY, which is also an exporter of dma-bufs, as "mapped:udmabuf" (memory.h). libmlx5
 * takes the memory of its queues by the allocators of a parent domain.
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "actions.h"
#include "memory.h"
#include "number.h"
#include "pattern.h"

#define DEPTH 64
#define MESSAGE 256
#define TIMEOUT 10

struct queue {
	struct ibv_pd *domain;
	/* The part that samples/verbs connects: near is the queue pair. */
	struct pair pair;
	/* How often libmlx5 has asked for memory. */
	int rings, records;
	char *message;
};

static bool keep;
static struct rdma *rdma;
static struct ibv_mr *mr;
/* Memory that is handed out from its start on. */
static struct {
	char *addr;
	size_t length, used;
} area;

/*
 * Returns @size bytes at a multiple of @alignment, all zero, as a doorbell record of earlier
 * queues must not be taken for that of new ones. NULL with errno set: no more.
 */
static void *area_take(size_t size, size_t alignment)
{
	size_t start = (area.used + alignment - 1) / alignment * alignment;

	if (start > area.length || size > area.length - start) {
		errno = ENOSPC;
		return NULL;
	}
	area.used = start + size;
	return memset(area.addr + start, 0, size);
}

/* Prints the errno of what could not be made. */
static int refused(const char *what)
{
	const char *name = strerrorname_np(errno);

	printf("%s: error %s\n", what, name ? name : "UNKNOWN");
	return 1;
}

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
	return area_take(size, alignment);
}

/* The area is released as a whole. */
static void release(struct ibv_pd *domain, void *context, void *addr, uint64_t type)
{
	(void)domain;
	(void)context;
	(void)addr;
	(void)type;
}

/* Returns false with errno set on failure. */
static bool create(struct queue *queue)
{
	struct ibv_parent_domain_init_attr domain = {
		.pd = rdma->pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = release,
		.pd_context = queue,
	};
	struct ibv_cq_init_attr_ex cq = {
		.cqe = DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
	};
	struct ibv_qp_init_attr qp = {
		.cap = { .max_send_wr = DEPTH / 4, .max_recv_wr = DEPTH / 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_cq_ex *made;

	queue->domain = ibv_alloc_parent_domain(rdma->context, &domain);
	if (!queue->domain)
		err(1, "ibv_alloc_parent_domain");
	cq.parent_domain = queue->domain;
	made = ibv_create_cq_ex(rdma->context, &cq);
	if (!made)
		return false;
	queue->pair.cq = ibv_cq_ex_to_cq(made);
	qp.send_cq = qp.recv_cq = queue->pair.cq;
	queue->pair.near = ibv_create_qp(queue->domain, &qp);
	if (!queue->pair.near)
		return false;
	if (queue->rings != 2 || queue->records != 2)
		errx(1, "libmlx5 took %d rings and %d doorbell records, not 2 and 2",
		     queue->rings, queue->records);
	return true;
}

static void destroy(struct queue *queue)
{
	if ((errno = ibv_destroy_qp(queue->pair.near)))
		err(1, "ibv_destroy_qp");
	if ((errno = ibv_destroy_cq(queue->pair.cq)))
		err(1, "ibv_destroy_cq");
	if ((errno = ibv_dealloc_pd(queue->domain)))
		err(1, "ibv_dealloc_pd of a parent domain");
}

static struct ibv_sge sge(const struct queue *queue)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)queue->message,
		.length = MESSAGE,
		.lkey = mr->lkey,
	};
}

static void post_receive(struct queue *queue)
{
	struct ibv_sge room = sge(queue);
	struct ibv_recv_wr wr = { .sg_list = &room, .num_sge = 1 }, *bad;

	if ((errno = ibv_post_recv(queue->pair.near, &wr, &bad)))
		err(1, "ibv_post_recv");
}

/* SEND; RDMA WRITE into the message of @to if that is not NULL. */
static void post_send(struct queue *queue, struct queue *to)
{
	struct ibv_sge data = sge(queue);
	struct ibv_send_wr wr = {
		.opcode = to ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &data,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = to ? (uintptr_t)to->message : 0, .rkey = mr->rkey },
	}, *bad;

	if ((errno = ibv_post_send(queue->pair.near, &wr, &bad)))
		err(1, "ibv_post_send");
}

static void complete(struct queue *queue)
{
	time_t end = time(NULL) + TIMEOUT;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(queue->pair.cq, 1, &wc)))
		if (time(NULL) > end)
			errx(1, "no completion");
	if (n < 0)
		errx(1, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "completion: %s", ibv_wc_status_str(wc.status));
}

/* MEMORY, which is never unmapped. */
static char *map(const struct options *o)
{
	struct memory memory;

	if (memory_map(&memory, o->memory, NULL, o->map_length))
		err(1, "%s", o->memory);
	return memory.addr;
}

/* The messages are compared by the CPU, with patterns of which no two are alike. */
static void must_have(const struct queue *queue, uint64_t seed)
{
	char want[MESSAGE];

	pattern_fill(want, MESSAGE, seed);
	if (memcmp(queue->message, want, MESSAGE))
		errx(1, "message %llu has not arrived", (unsigned long long)seed);
}

static void run_rounds(struct queue *near, struct queue *far, int rounds)
{
	for (uint64_t seed = 0; seed < (uint64_t)rounds * 2; seed += 2) {
		post_receive(far);
		pattern_fill(near->message, MESSAGE, seed);
		post_send(near, NULL);
		complete(far);
		must_have(far, seed);
		pattern_fill(far->message, MESSAGE, seed + 1);
		post_send(far, near);
		complete(far);
		must_have(near, seed + 1);
		/* That of the message. */
		complete(near);
	}
}

static int do_verbs(struct options *o)
{
	struct queue queues[2] = { 0 };
	struct address addresses[2];

	rdma = &o->rdma;
	area.addr = map(o);
	area.length = o->map_length;
	for (int i = 0; i < 2; i++) {
		/* The kernel destroys the domain, and the CQ if there is one. */
		if (!create(&queues[i]))
			exit(refused("verbs"));
		addresses[i] = pair_address(rdma, &queues[i].pair);
	}
	mr = rdma_register(rdma, area.addr, area.length);
	for (int i = 0; i < 2; i++) {
		pair_connect(rdma, &queues[i].pair, &addresses[!i]);
		queues[i].message = area_take(MESSAGE, MESSAGE);
		if (!queues[i].message)
			err(1, "the memory is too short");
	}
	run_rounds(&queues[0], &queues[1], o->count);
	printf("%d rounds, %zu bytes used\n", o->count, area.used);
	while (keep)
		pause();
	for (int i = 0; i < 2; i++)
		destroy(&queues[i]);
	rdma_deregister(mr);
	return 0;
}

static int do_umem(struct options *o)
{
	struct mlx5dv_devx_umem *umem;

	umem = mlx5dv_devx_umem_reg(o->rdma.context, map(o) + o->offset, o->length,
				    IBV_ACCESS_LOCAL_WRITE);
	if (!umem)
		return refused("umem");
	printf("umem: ok\n");
	while (keep)
		pause();
	if (mlx5dv_devx_umem_dereg(umem))
		err(1, "mlx5dv_devx_umem_dereg");
	return 0;
}

static void option(int letter, const char *argument)
{
	(void)letter;
	(void)argument;
	keep = true;
}

static const struct action actions[] = {
	{ "verbs", do_verbs, "two queue pairs; -n rounds", false },
	{ "umem", do_umem, "one DEVX umem; prints ok, or the name of its errno", false },
};

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "mlx5_queue",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "k",
		.option = option,
		.help = "  -k          then wait to be killed\n",
	};

	return program_run(&program, argc, argv);
}
