// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Registrations of memory that the kernel has no name of, as without ib_peer_mem: by the dma-buf of the
 * memory, if the adapter's driver imports dma-bufs. libibverbs is not needed in programs without RDMA.
 */
#include <errno.h>
#include <unistd.h>

#include "gpu.h"

/* From infiniband/verbs.h. */
struct ibv_mr {
	void *context;
	struct ibv_pd *pd;
	void *addr;
};

#define IBV_ACCESS_ON_DEMAND (1 << 6)
#define IBV_ACCESS_HUGETLB (1 << 7)

/* An errno of the kernel, with which exporters refuse. */
#define ENOTSUPP 524

/* Returns whether the memory has a dma-buf, by which it is, or cannot be, registered. */
static bool by_dmabuf(struct ibv_mr **mr, struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		      unsigned int access)
{
	__typeof__(&ibv_reg_dmabuf_mr) reg;
	uint64_t offset = 0;
	int fd = memory_export((uintptr_t)addr, length, &offset), saved;

	if (fd < 0)
		return false;
	reg = NEXT(ibv_reg_dmabuf_mr);
	if (!reg) {
		close(fd);
		return false;
	}
	/* A dma-buf is paged in anyway, and has no huge pages. */
	access &= ~(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB);
	*mr = reg(pd, offset, length, iova, fd, access);
	/* The MR has the dma-buf. */
	saved = errno;
	close(fd);
	errno = saved == ENOTSUPP ? EOPNOTSUPP : saved;
	if (*mr)
		(*mr)->addr = addr;
	return true;
}

#define REGISTERS(name, parameters, iova, arguments) \
	EXPORTED struct ibv_mr *name parameters \
	{ \
		__typeof__(&name) next = NEXT(name); \
		struct ibv_mr *mr = NULL; \
\
		if (by_dmabuf(&mr, pd, addr, length, iova, access)) \
			return mr; \
		if (next) \
			return next arguments; \
		errno = ENOSYS; \
		return NULL; \
	}

REGISTERS(ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access), (uintptr_t)addr,
	  (pd, addr, length, access))
REGISTERS(ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access), iova,
	  (pd, addr, length, iova, access))
REGISTERS(ibv_reg_mr_iova2, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access), iova,
	  (pd, addr, length, iova, access))
