// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Registrations of memory that the kernel has no name of, as without ib_peer_mem: by the dma-buf of the
 * memory, if the adapter's driver imports dma-bufs, or else as without this library. libibverbs is not needed in programs without RDMA.
 */
#include <errno.h>

#include "gpu.h"

/* From infiniband/verbs.h. */
struct ibv_mr {
	void *context;
	struct ibv_pd *pd;
	void *addr;
};

#define IBV_ACCESS_ON_DEMAND (1 << 6)
#define IBV_ACCESS_HUGETLB (1 << 7)

static struct ibv_mr *by_dma_buf(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	const bool looks = __atomic_load_n(&memory_any_unnamed, __ATOMIC_RELAXED);
	__typeof__(&ibv_reg_dmabuf_mr) reg = looks ? NEXT(ibv_reg_dmabuf_mr) : NULL;
	struct dma_buf dma_buf;
	struct ibv_mr *mr;

	if (!reg || !memory_export((uintptr_t)addr, length, &dma_buf))
		return NULL;
	/* A dma-buf is paged in anyway, and has no huge pages. */
	access &= ~(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB);
	mr = reg(pd, dma_buf.offset, length, iova, dma_buf.fd, access);
	if (mr)
		mr->addr = addr;
	/* The MR has the dma-buf. */
	memory_exported(&dma_buf);
	return mr;
}

#define REGISTERS(name, parameters, iova, arguments) \
	EXPORTED struct ibv_mr *name parameters \
	{ \
		struct ibv_mr *mr = by_dma_buf(pd, addr, length, iova, access); \
		__typeof__(&name) next = mr ? NULL : NEXT(name); \
\
		if (next) \
			return next arguments; \
		if (!mr) \
			errno = ENOSYS; \
		return mr; \
	}

REGISTERS(ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access), (uintptr_t)addr,
	  (pd, addr, length, access))
REGISTERS(ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access), iova,
	  (pd, addr, length, iova, access))
REGISTERS(ibv_reg_mr_iova2, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access), iova,
	  (pd, addr, length, iova, access))
