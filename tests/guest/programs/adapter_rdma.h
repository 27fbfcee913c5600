/* SPDX-License-Identifier: GPL-2.0 */
/* Commands of adapter_mr for devices that do RDMA, and for the test exporter. */
#ifndef ADAPTER_RDMA_H
#define ADAPTER_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "uverbs.h"
#include "verbs.h"

/* The process: its memory, and the MR or the queue of it. */
struct adapter {
	struct rdma rdma;	/* with the PD in use */
	struct ibv_pd *other_pd;
	struct memory memory;
	size_t offset, length;	/* of the MR in the memory */
	int access;
	struct ibv_mr *mr;	/* NULL: not made by libibverbs */
	enum queue_kind kind;
	struct queue queue;
	struct keys keys;
	bool registered;
	bool by_ioctl;
};

extern struct adapter it;

/* The address of the MR. */
static inline char *its_addr(void)
{
	return it.memory.addr + it.offset;
}

/* Commands, which answer: all of the MR, by one request; */
void transfer(enum ibv_wr_opcode opcode, uint64_t seed);
/* the memory as the exporter has it, compared, or without @seed a number for its contents; */
void look(const uint64_t *seed);
/* the state of the test exporter; registrations while a chunk of a GPU's memory comes and goes. */
void answer_state(int control);
void churn(uint64_t times);

/* Answers, as printf(3), with a line; and with "error ERRNO". */
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
void answer_errno(void);

/* ibv_reg_mr(), by the function that $REG names: dlsym, or dlvsym and ibv_reg_mr, iova or iova2. */
struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/* Answers "ok" if @rc is 0, else with the errno. */
void answer_rc(int rc);

/*
 * A thread that writes to the MR, reads each byte back, and compares it with what the CPU sees in the
 * mapping, if there is one. One at a time.
 */
void writer_start(void);
void writer_stop(void);

#endif /* ADAPTER_RDMA_H */
