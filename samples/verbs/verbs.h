/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Verbs for the samples and the tests: a device, and two queue pairs that are connected to
 * each other. Both belong to this process, or one to a process on another host.
 */
#ifndef VERBS_H
#define VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rdma {
	struct ibv_context *context;
	struct ibv_pd *pd;
	int gid_index;		/* of the local GID; 0 unless changed */
};

/* The address of a queue pair, for the one that connects to it. */
struct address {
	union ibv_gid gid;
	uint32_t qp_num;
	uint16_t lid;		/* of an InfiniBand port; 0 for Ethernet */
};

/* Requests are posted on @near. @far answers them; NULL if it is on another host. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *near, *far;
};

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct rdma rdma_open(const char *device);
void rdma_close(struct rdma *r);

/* ibv_reg_mr() with ACCESS_ALL. A failure ends the program. */
struct ibv_mr *rdma_register(struct rdma *r, void *addr, size_t length);
void rdma_deregister(struct ibv_mr *mr);

struct pair pair_make(struct rdma *r);
/* Creates @near alone. pair_connect() connects it to the other host's queue pair. */
struct pair pair_make_near(struct rdma *r);
struct address pair_address(struct rdma *r, struct pair *p);
void pair_connect(struct rdma *r, struct pair *p, const struct address *far);
void pair_free(struct pair *p);

/* Posts one request and waits for its completion. */
enum ibv_wc_status pair_run(struct pair *p, struct ibv_send_wr *wr);

/* RDMA WRITE or READ of @length bytes between @local and @remote. */
enum ibv_wc_status pair_rw(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, void *local_addr,
			   struct ibv_mr *remote, void *remote_addr, uint32_t length);

/* The same, with the rkey and the address of another host's MR. */
enum ibv_wc_status pair_rw_key(struct pair *p, enum ibv_wr_opcode opcode,
			       struct ibv_mr *local, void *local_addr,
			       uint32_t rkey, uint64_t remote_addr, uint32_t length);

/* pair_rw(). A failure ends the program. */
void pair_must_rw(struct pair *p, enum ibv_wr_opcode opcode,
		  struct ibv_mr *local, void *local_addr,
		  struct ibv_mr *remote, void *remote_addr, uint32_t length);

/*
 * An atomic on the 8 bytes at @remote_addr. Returns their old value, which the adapter
 * writes to the start of @result. A failure ends the program.
 */
uint64_t pair_must_atomic(struct pair *p, enum ibv_wr_opcode opcode, struct ibv_mr *result,
			  struct ibv_mr *remote, uint64_t remote_addr, uint64_t compare_add,
			  uint64_t swap);

#endif /* VERBS_H */
