// SPDX-License-Identifier: GPL-2.0
/*
 * Queues by DEVX: the commands, work requests, doorbells and completions of the device
 * itself, as a GPU or FPGA has them that drives the adapter. The layouts of the commands
 * are in the kernel's own header, which the build names by MLX5_IFC.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include <linux/stddef.h>

#include "mlx5_queue.h"

/* What that header takes from others of the kernel. */
typedef uint8_t u8;
#define BIT(n) (1U << (n))
#define BIT_ULL(n) (1ULL << (n))
#define DECLARE_FLEX_ARRAY(type, name) __DECLARE_FLEX_ARRAY(type, name)
#include MLX5_IFC

#define PORT 1
#define LOG_DEPTH 4
#define DEPTH (1 << LOG_DEPTH)
#define BLOCK 64
#define SEND_DOORBELL 0x800
/* The queue's memory is one umem: the rings, and at its end the doorbell records. */
#define CQ_RING 0
#define RQ_RING (DEPTH * sizeof(struct mlx5_cqe64))
#define SQ_RING (RQ_RING + DEPTH * sizeof(struct mlx5_wqe_data_seg))
#define CQ_RECORD 0xf80
#define QP_RECORD 0xfc0
#define UMEM 0x1000
/* The fields of the CQ and QP contexts, and of CREATE_CQ, that the header has no names for. */
#define CQC_DBR_UMEM_ID 4
#define QPC_DBR_UMEM_ID 228
#define CREATE_CQ_UMEM_OFFSET 80
#define CREATE_CQ_UMEM_ID 88

struct queue {
	struct rdma *rdma;
	char *memory;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_obj *cq, *qp;
	uint32_t cqn, qpn;
	/* Indices of the next completion, and of the next work requests. */
	uint32_t completed;
	uint16_t received, sent;
};

static void put32(void *at, size_t offset, uint32_t value)
{
	value = htobe32(value);
	memcpy((char *)at + offset, &value, sizeof(value));
}

static struct mlx5dv_devx_obj *create_cq(struct queue *queue)
{
	uint32_t in[DEVX_ST_SZ_DW(create_cq_in)] = { 0 };
	uint32_t out[DEVX_ST_SZ_DW(create_cq_out)] = { 0 };
	void *cqc = DEVX_ADDR_OF(create_cq_in, in, cq_context);
	struct mlx5dv_devx_obj *cq;
	uint32_t eqn;

	if (mlx5dv_devx_query_eqn(queue->rdma->context, 0, &eqn))
		err(1, "mlx5dv_devx_query_eqn");
	DEVX_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	put32(in, CREATE_CQ_UMEM_OFFSET + 4, CQ_RING);
	put32(in, CREATE_CQ_UMEM_ID, queue->umem->umem_id);
	DEVX_SET(cqc, cqc, log_cq_size, LOG_DEPTH);
	DEVX_SET(cqc, cqc, uar_page, queue->uar->page_id);
	DEVX_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	put32(cqc, CQC_DBR_UMEM_ID, queue->umem->umem_id);
	DEVX_SET64(cqc, cqc, dbr_addr, CQ_RECORD);
	cq = mlx5dv_devx_obj_create(queue->rdma->context, in, sizeof(in), out, sizeof(out));
	queue->cqn = DEVX_GET(create_cq_out, out, cqn);
	return cq;
}

static struct mlx5dv_devx_obj *create_qp(struct queue *queue)
{
	uint32_t in[DEVX_ST_SZ_DW(create_qp_in)] = { 0 };
	uint32_t out[DEVX_ST_SZ_DW(create_qp_out)] = { 0 };
	void *qpc = DEVX_ADDR_OF(create_qp_in, in, qpc);
	struct mlx5dv_pd pd = { 0 };
	struct mlx5dv_obj obj = { .pd = { .in = queue->rdma->pd, .out = &pd } };
	struct mlx5dv_devx_obj *qp;

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD))
		errx(1, "mlx5dv_init_obj");
	DEVX_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	DEVX_SET64(create_qp_in, in, wq_umem_offset, RQ_RING);
	DEVX_SET(create_qp_in, in, wq_umem_id, queue->umem->umem_id);
	DEVX_SET(qpc, qpc, pm_state, MLX5_QPC_PM_STATE_MIGRATED);
	DEVX_SET(qpc, qpc, pd, pd.pdn);
	/* One data segment for each receive. */
	DEVX_SET(qpc, qpc, log_rq_stride, 0);
	DEVX_SET(qpc, qpc, log_rq_size, LOG_DEPTH);
	DEVX_SET(qpc, qpc, log_sq_size, LOG_DEPTH);
	DEVX_SET(qpc, qpc, uar_page, queue->uar->page_id);
	DEVX_SET(qpc, qpc, cqn_snd, queue->cqn);
	DEVX_SET(qpc, qpc, cqn_rcv, queue->cqn);
	put32(qpc, QPC_DBR_UMEM_ID, queue->umem->umem_id);
	DEVX_SET64(qpc, qpc, dbr_addr, QP_RECORD);
	qp = mlx5dv_devx_obj_create(queue->rdma->context, in, sizeof(in), out, sizeof(out));
	queue->qpn = DEVX_GET(create_qp_out, out, qpn);
	return qp;
}

static void destroy(struct queue *queue)
{
	if (queue->qp && mlx5dv_devx_obj_destroy(queue->qp))
		err(1, "destruction of a QP");
	if (queue->cq && mlx5dv_devx_obj_destroy(queue->cq))
		err(1, "destruction of a CQ");
	if (queue->umem && mlx5dv_devx_umem_dereg(queue->umem))
		err(1, "mlx5dv_devx_umem_dereg");
	if (queue->uar)
		mlx5dv_devx_free_uar(queue->uar);
	free(queue);
}

/* Makes the queue as far as the driver lets it. */
static void fill(struct queue *queue)
{
	queue->umem = mlx5dv_devx_umem_reg(queue->rdma->context, queue->memory, UMEM,
					   IBV_ACCESS_LOCAL_WRITE);
	if (!queue->umem)
		return;
	/* All entries are the device's, in the first round with the owner bit 0. */
	for (size_t i = 0; i < DEPTH; i++) {
		struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)(queue->memory + CQ_RING) + i;

		cqe->op_own = MLX5_CQE_INVALID << 4 | MLX5_CQE_OWNER_MASK;
	}
	queue->cq = create_cq(queue);
	if (queue->cq)
		queue->qp = create_qp(queue);
}

static struct queue *create(struct rdma *r, struct area *area)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	int saved;

	if (!queue)
		err(1, "calloc");
	queue->rdma = r;
	queue->memory = area_take(area, UMEM, UMEM);
	if (!queue->memory)
		err(1, "the memory is too short");
	queue->uar = mlx5dv_devx_alloc_uar(r->context, MLX5DV_UAR_ALLOC_TYPE_NC);
	if (!queue->uar)
		err(1, "mlx5dv_devx_alloc_uar");
	fill(queue);
	if (queue->qp)
		return queue;
	saved = errno;
	destroy(queue);
	errno = saved;
	return NULL;
}

static struct address address(struct queue *queue)
{
	struct address a = { .qp_num = queue->qpn };

	if (ibv_query_gid(queue->rdma->context, PORT, queue->rdma->gid_index, &a.gid))
		err(1, "ibv_query_gid");
	return a;
}

static void modify(struct queue *queue, const void *in, size_t length)
{
	uint32_t out[DEVX_ST_SZ_DW(rst2init_qp_out)] = { 0 };

	if (mlx5dv_devx_obj_modify(queue->qp, in, length, out, sizeof(out)))
		err(1, "modification of a QP: syndrome %#x",
		    DEVX_GET(rst2init_qp_out, out, syndrome));
}

/* The path to a GID, with what the kernel knows about it. */
static void set_path(struct queue *queue, void *path, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = *gid, .sgid_index = queue->rdma->gid_index, .hop_limit = 64 },
	};
	struct ibv_port_attr port;
	struct mlx5dv_ah out = { 0 };
	struct mlx5dv_obj obj = { .ah = { .out = &out } };

	if ((errno = ibv_query_port(queue->rdma->context, PORT, &port)))
		err(1, "ibv_query_port");
	attr.dlid = port.lid;
	obj.ah.in = ibv_create_ah(queue->rdma->pd, &attr);
	if (!obj.ah.in || mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH))
		err(1, "ibv_create_ah");
	DEVX_SET(ads, path, grh, 1);
	DEVX_SET(ads, path, src_addr_index, queue->rdma->gid_index);
	DEVX_SET(ads, path, hop_limit, 64);
	DEVX_SET(ads, path, vhca_port_num, PORT);
	memcpy(DEVX_ADDR_OF(ads, path, rgid_rip), gid, sizeof(*gid));
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		DEVX_SET(ads, path, udp_sport, 0xc000);
		memcpy(DEVX_ADDR_OF(ads, path, rmac_47_32), out.av->rmac, sizeof(out.av->rmac));
	} else {
		DEVX_SET(ads, path, rlid, port.lid);
	}
	ibv_destroy_ah(obj.ah.in);
}

static void to_init(struct queue *queue)
{
	uint32_t in[DEVX_ST_SZ_DW(rst2init_qp_in)] = { 0 };
	void *qpc = DEVX_ADDR_OF(rst2init_qp_in, in, qpc);

	DEVX_SET(rst2init_qp_in, in, opcode, MLX5_CMD_OP_RST2INIT_QP);
	DEVX_SET(rst2init_qp_in, in, qpn, queue->qpn);
	DEVX_SET(qpc, qpc, pm_state, MLX5_QPC_PM_STATE_MIGRATED);
	DEVX_SET(qpc, qpc, rwe, 1);
	DEVX_SET(qpc, qpc, primary_address_path.vhca_port_num, PORT);
	modify(queue, in, sizeof(in));
}

static void to_rtr(struct queue *queue, const struct address *to)
{
	uint32_t in[DEVX_ST_SZ_DW(init2rtr_qp_in)] = { 0 };
	void *qpc = DEVX_ADDR_OF(init2rtr_qp_in, in, qpc);

	DEVX_SET(init2rtr_qp_in, in, opcode, MLX5_CMD_OP_INIT2RTR_QP);
	DEVX_SET(init2rtr_qp_in, in, qpn, queue->qpn);
	DEVX_SET(qpc, qpc, mtu, IBV_MTU_1024);
	DEVX_SET(qpc, qpc, log_msg_max, 30);
	DEVX_SET(qpc, qpc, remote_qpn, to->qp_num);
	DEVX_SET(qpc, qpc, min_rnr_nak, 12);
	set_path(queue, DEVX_ADDR_OF(qpc, qpc, primary_address_path), &to->gid);
	modify(queue, in, sizeof(in));
}

static void to_rts(struct queue *queue)
{
	uint32_t in[DEVX_ST_SZ_DW(rtr2rts_qp_in)] = { 0 };
	void *qpc = DEVX_ADDR_OF(rtr2rts_qp_in, in, qpc);

	DEVX_SET(rtr2rts_qp_in, in, opcode, MLX5_CMD_OP_RTR2RTS_QP);
	DEVX_SET(rtr2rts_qp_in, in, qpn, queue->qpn);
	DEVX_SET(qpc, qpc, retry_count, 6);
	DEVX_SET(qpc, qpc, rnr_retry, 7);
	DEVX_SET(qpc, qpc, primary_address_path.ack_timeout, 18);
	modify(queue, in, sizeof(in));
}

static void connect_to(struct queue *queue, const struct address *to)
{
	to_init(queue);
	to_rtr(queue, to);
	to_rts(queue);
}

/* Publishes an index: the device sees all that was written before. */
static void set_record(struct queue *queue, size_t offset, uint32_t index)
{
	__sync_synchronize();
	*(volatile uint32_t *)(queue->memory + offset) = htobe32(index);
	__sync_synchronize();
}

static void receive(struct queue *queue, const struct message *to)
{
	struct mlx5_wqe_data_seg *ring = (void *)(queue->memory + RQ_RING);

	mlx5dv_set_data_seg(&ring[queue->received % DEPTH], to->length, to->lkey,
			    (uintptr_t)to->addr);
	queue->received++;
	set_record(queue, QP_RECORD, queue->received);
}

static void send(struct queue *queue, const struct message *from, uint64_t remote_addr,
		 uint32_t rkey)
{
	char *wqe = queue->memory + SQ_RING + queue->sent % DEPTH * BLOCK, *at = wqe;
	uint8_t segments = rkey ? 3 : 2;

	mlx5dv_set_ctrl_seg((void *)at, queue->sent,
			    rkey ? MLX5_OPCODE_RDMA_WRITE : MLX5_OPCODE_SEND, 0, queue->qpn,
			    MLX5_WQE_CTRL_CQ_UPDATE, segments, 0, 0);
	at += sizeof(struct mlx5_wqe_ctrl_seg);
	if (rkey) {
		struct mlx5_wqe_raddr_seg *remote = (void *)at;

		remote->raddr = htobe64(remote_addr);
		remote->rkey = htobe32(rkey);
		at += sizeof(*remote);
	}
	mlx5dv_set_data_seg((void *)at, from->length, from->lkey, (uintptr_t)from->addr);
	queue->sent++;
	set_record(queue, QP_RECORD + 4, queue->sent);
	/* The first 8 bytes of the work request. */
	*(volatile uint64_t *)((char *)queue->uar->base_addr + SEND_DOORBELL) =
		*(uint64_t *)wqe;
}

static int poll(struct queue *queue)
{
	struct mlx5_cqe64 *ring = (void *)(queue->memory + CQ_RING);
	struct mlx5_cqe64 *cqe = &ring[queue->completed % DEPTH];
	uint8_t op_own = *(volatile uint8_t *)&cqe->op_own;
	bool round = queue->completed / DEPTH % 2;

	if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & MLX5_CQE_OWNER_MASK) != round)
		return 0;
	__sync_synchronize();
	if (op_own >> 4 != MLX5_CQE_REQ && op_own >> 4 != MLX5_CQE_RESP_SEND)
		errx(1, "DEVX completion: opcode %u, syndrome %#x", op_own >> 4,
		     ((struct mlx5_err_cqe *)cqe)->syndrome);
	queue->completed++;
	set_record(queue, CQ_RECORD, queue->completed & 0xffffff);
	return 1;
}

const struct queue_ops devx_queue = {
	.name = "devx",
	.create = create,
	.address = address,
	.connect = connect_to,
	.receive = receive,
	.send = send,
	.poll = poll,
	.destroy = destroy,
};
