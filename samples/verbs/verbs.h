/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs of the example: a device, and two queue pairs of one process that are
 * connected to each other, so that one program shows both ends.
 */
#ifndef VERBS_H
#define VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rdma {
	struct ibv_context *context;
	struct ibv_pd *pd;
};

/* Requests are posted on @near; @far answers them. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *near, *far;
};

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct rdma rdma_open(const char *device);
void rdma_close(struct rdma *r);

/* ibv_reg_mr() with every access; ends the program where it fails. */
struct ibv_mr *rdma_register(struct rdma *r, void *addr, size_t length);
void rdma_deregister(struct ibv_mr *mr);

struct pair pair_make(struct rdma *r);
void pair_free(struct pair *p);

/* Post one request and wait for its completion. */
enum ibv_wc_status pair_run(struct pair *p, struct ibv_send_wr *wr);

/* RDMA WRITE or READ of @length bytes between @local and @remote. */
enum ibv_wc_status pair_rw(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, void *local_addr,
			   struct ibv_mr *remote, void *remote_addr, uint32_t length);

/* The same, where anything but success ends the program. */
void pair_must_rw(struct pair *p, enum ibv_wr_opcode opcode,
		  struct ibv_mr *local, void *local_addr,
		  struct ibv_mr *remote, void *remote_addr, uint32_t length);

#endif /* VERBS_H */
