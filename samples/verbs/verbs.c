// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verbs.h"

#define PORT 1
#define GID_INDEX 0

struct rdma rdma_open(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rdma r = { 0 };

	if (!list)
		err(1, "ibv_get_device_list");
	for (int i = 0; list[i] && !r.context; i++)
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			r.context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!r.context)
		errx(1, "no RDMA device %s", device);
	r.pd = ibv_alloc_pd(r.context);
	if (!r.pd)
		err(1, "ibv_alloc_pd");
	return r;
}

void rdma_close(struct rdma *r)
{
	if ((errno = ibv_dealloc_pd(r->pd)))
		err(1, "ibv_dealloc_pd");
	if (ibv_close_device(r->context))
		err(1, "ibv_close_device");
}

struct ibv_mr *rdma_register(struct rdma *r, void *addr, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(r->pd, addr, length, ACCESS_ALL);

	if (!mr)
		err(1, "ibv_reg_mr of %zu bytes", length);
	return mr;
}

void rdma_deregister(struct ibv_mr *mr)
{
	if ((errno = ibv_dereg_mr(mr)))
		err(1, "ibv_dereg_mr");
}

static struct ibv_qp *qp_make(struct rdma *r, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	if (!qp)
		err(1, "ibv_create_qp");
	return qp;
}

/* The three steps from a fresh queue pair to one that talks to @peer. */
static void qp_connect(struct rdma *r, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp_attr ready_to_receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = { .sgid_index = GID_INDEX, .hop_limit = 1 },
		},
	};
	struct ibv_qp_attr ready_to_send = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	if (ibv_query_gid(r->context, PORT, GID_INDEX, &ready_to_receive.ah_attr.grh.dgid))
		err(1, "ibv_query_gid");
	if ((errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		err(1, "ibv_modify_qp to INIT");
	if ((errno = ibv_modify_qp(qp, &ready_to_receive, IBV_QP_STATE | IBV_QP_AV |
				   IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		err(1, "ibv_modify_qp to RTR");
	if ((errno = ibv_modify_qp(qp, &ready_to_send, IBV_QP_STATE | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC)))
		err(1, "ibv_modify_qp to RTS");
}

struct pair pair_make(struct rdma *r)
{
	struct pair p = { .cq = ibv_create_cq(r->context, 64, NULL, NULL, 0) };

	if (!p.cq)
		err(1, "ibv_create_cq");
	p.near = qp_make(r, p.cq);
	p.far = qp_make(r, p.cq);
	qp_connect(r, p.near, p.far);
	qp_connect(r, p.far, p.near);
	return p;
}

void pair_free(struct pair *p)
{
	if ((errno = ibv_destroy_qp(p->near)) || (errno = ibv_destroy_qp(p->far)))
		err(1, "ibv_destroy_qp");
	if ((errno = ibv_destroy_cq(p->cq)))
		err(1, "ibv_destroy_cq");
}

enum ibv_wc_status pair_run(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	/* Two seconds for a MiB: emulated machines are slow. */
	time_t end = time(NULL) + 20 + (wr->sg_list->length >> 19);
	int n;

	wr->send_flags |= IBV_SEND_SIGNALED;
	if ((errno = ibv_post_send(p->near, wr, &bad)))
		err(1, "ibv_post_send");
	/* A completion comes for every request, if only to say that it failed. */
	while (!(n = ibv_poll_cq(p->cq, 1, &wc)))
		if (time(NULL) > end)
			errx(1, "no completion in time");
	if (n < 0)
		errx(1, "ibv_poll_cq: %d", n);
	return wc.status;
}

enum ibv_wc_status pair_rw(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, void *local_addr,
			   struct ibv_mr *remote, void *remote_addr, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)local_addr,
		.length = length,
		.lkey = local->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = (uintptr_t)remote_addr, .rkey = remote->rkey },
	};

	return pair_run(p, &wr);
}

void pair_must_rw(struct pair *p, enum ibv_wr_opcode opcode,
		  struct ibv_mr *local, void *local_addr,
		  struct ibv_mr *remote, void *remote_addr, uint32_t length)
{
	enum ibv_wc_status status = pair_rw(p, opcode, local, local_addr, remote,
					    remote_addr, length);

	if (status != IBV_WC_SUCCESS)
		errx(1, "RDMA %s of %u bytes: %s",
		     opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE", length,
		     ibv_wc_status_str(status));
}
