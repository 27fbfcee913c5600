/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs of the example: a device, and two queue pairs of one process that are
 * connected to each other, so that one program shows both ends; or one of them, and
 * the other on another host.
 */
#ifndef VERBS_H
#define VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rdma {
	struct ibv_context *context;
	struct ibv_pd *pd;
	int gid_index;		/* which of the port's addresses is ours; 0 unless changed */
};

/* What a queue pair must know of the one at the other end. */
struct address {
	union ibv_gid gid;
	uint32_t qp_num;
};

/* Requests are posted on @near; @far, NULL if it is another host's, answers them. */
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
/* The near one alone: pair_address() is for the other host, whose answer connects it. */
struct pair pair_make_near(struct rdma *r);
struct address pair_address(struct rdma *r, struct pair *p);
void pair_connect(struct rdma *r, struct pair *p, const struct address *far);
void pair_free(struct pair *p);

/* Post one request and wait for its completion. */
enum ibv_wc_status pair_run(struct pair *p, struct ibv_send_wr *wr);

/* RDMA WRITE or READ of @length bytes between @local and @remote. */
enum ibv_wc_status pair_rw(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, void *local_addr,
			   struct ibv_mr *remote, void *remote_addr, uint32_t length);

/* The same with an MR of another host, of which this one has the key. */
enum ibv_wc_status pair_rw_key(struct pair *p, enum ibv_wr_opcode opcode,
			       struct ibv_mr *local, void *local_addr,
			       uint32_t rkey, uint64_t remote_addr, uint32_t length);

/* pair_rw(), where anything but success ends the program. */
void pair_must_rw(struct pair *p, enum ibv_wr_opcode opcode,
		  struct ibv_mr *local, void *local_addr,
		  struct ibv_mr *remote, void *remote_addr, uint32_t length);

#endif /* VERBS_H */
