// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verbs.h"

#define PORT 1

struct rdma rdma_open(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rdma r = { 0 };
	int i = 0;

	if (!list)
		err(1, "ibv_get_device_list (is ib_uverbs loaded?)");
	while (list[i] && strcmp(ibv_get_device_name(list[i]), device))
		i++;
	if (!list[i]) {
		warnx("no RDMA device %s", device);
		fprintf(stderr, list[0] ? "  RDMA devices of this host:" : "  this host has no RDMA device; "
			"\"rdma link add rxe0 type rxe netdev eth0\" creates a software device");
		for (i = 0; list[i]; i++)
			fprintf(stderr, " %s", ibv_get_device_name(list[i]));
		fprintf(stderr, "\n");
		exit(1);
	}
	r.context = ibv_open_device(list[i]);
	if (!r.context)
		err(1, "RDMA device %s", device);
	ibv_free_device_list(list);
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

	/* The kernel log and "iopm doctor" may say more. */
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

static struct address qp_address(struct rdma *r, struct ibv_qp *qp)
{
	struct address a = { .qp_num = qp->qp_num };
	struct ibv_port_attr port;

	if (ibv_query_gid(r->context, PORT, r->gid_index, &a.gid))
		err(1, "ibv_query_gid");
	if ((errno = ibv_query_port(r->context, PORT, &port)))
		err(1, "ibv_query_port");
	a.lid = port.lid;
	return a;
}

/* Moves a new queue pair through INIT and RTR to RTS, connected to @peer. */
static void qp_connect(struct rdma *r, struct ibv_qp *qp, const struct address *peer)
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
			.dlid = peer->lid,
			.port_num = PORT,
			.grh = { .dgid = peer->gid, .sgid_index = r->gid_index,
				 .hop_limit = 64 },
		},
	};
	struct ibv_qp_attr ready_to_send = {
		.qp_state = IBV_QPS_RTS,
		/* 1 s, and 6 retries: soft RoCE retries for ever with a count of 7. */
		.timeout = 18,
		.retry_cnt = 6,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

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

struct pair pair_make_near(struct rdma *r)
{
	struct pair p = { .cq = ibv_create_cq(r->context, 64, NULL, NULL, 0) };

	if (!p.cq)
		err(1, "ibv_create_cq");
	p.near = qp_make(r, p.cq);
	return p;
}

struct address pair_address(struct rdma *r, struct pair *p)
{
	return qp_address(r, p->near);
}

void pair_connect(struct rdma *r, struct pair *p, const struct address *far)
{
	qp_connect(r, p->near, far);
}

struct pair pair_make(struct rdma *r)
{
	struct pair p = pair_make_near(r);
	struct address near, far;

	p.far = qp_make(r, p.cq);
	near = qp_address(r, p.near);
	far = qp_address(r, p.far);
	qp_connect(r, p.near, &far);
	qp_connect(r, p.far, &near);
	return p;
}

void pair_free(struct pair *p)
{
	if ((errno = ibv_destroy_qp(p->near)) || (p->far && (errno = ibv_destroy_qp(p->far))))
		err(1, "ibv_destroy_qp");
	if ((errno = ibv_destroy_cq(p->cq)))
		err(1, "ibv_destroy_cq");
}

enum ibv_wc_status pair_run(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	/* 2 s per MiB: emulated machines are slow. */
	time_t end = time(NULL) + 20 + (wr->sg_list->length >> 19);
	int n;

	wr->send_flags |= IBV_SEND_SIGNALED;
	if ((errno = ibv_post_send(p->near, wr, &bad)))
		err(1, "ibv_post_send");
	/* Every request completes, a failed one with an error status. */
	while (!(n = ibv_poll_cq(p->cq, 1, &wc)))
		if (time(NULL) > end)
			errx(1, "no completion in time");
	if (n < 0)
		errx(1, "ibv_poll_cq: %d", n);
	return wc.status;
}

enum ibv_wc_status pair_rw_key(struct pair *p, enum ibv_wr_opcode opcode,
			       struct ibv_mr *local, void *local_addr,
			       uint32_t rkey, uint64_t remote_addr, uint32_t length)
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
		.wr.rdma = { .remote_addr = remote_addr, .rkey = rkey },
	};

	return pair_run(p, &wr);
}

enum ibv_wc_status pair_rw(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, void *local_addr,
			   struct ibv_mr *remote, void *remote_addr, uint32_t length)
{
	return pair_rw_key(p, opcode, local, local_addr, remote->rkey, (uintptr_t)remote_addr,
			   length);
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

uint64_t pair_must_atomic(struct pair *p, enum ibv_wr_opcode opcode, struct ibv_mr *result,
			  struct ibv_mr *remote, uint64_t remote_addr, uint64_t compare_add,
			  uint64_t swap)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)result->addr,
		.length = 8,
		.lkey = result->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.atomic = {
			.remote_addr = remote_addr,
			.rkey = remote->rkey,
			.compare_add = compare_add,
			.swap = swap,
		},
	};
	enum ibv_wc_status status = pair_run(p, &wr);

	if (status != IBV_WC_SUCCESS)
		errx(1, "atomic: %s", ibv_wc_status_str(status));
	return *(volatile uint64_t *)result->addr;
}
