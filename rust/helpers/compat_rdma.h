/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the newest ib_core that older kernels lack, for the test adapter. Part of the room that
 * rust/ext/base/compat.rs describes.
 */
#ifndef EXT_COMPAT_RDMA_H
#define EXT_COMPAT_RDMA_H

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/err.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "features.h"

/* 7.0, 7.1 */
#ifndef HAS_UMEM_DESC
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* 7.0: the access of an MR never decides whether its umem can stay. */
#ifndef HAS_UMEM_CHECK_REREG
static inline int ib_umem_check_rereg(struct ib_umem *umem, int flags, int access)
{
	return (flags & IB_MR_REREG_ACCESS) && ib_access_writable(access) && !umem->writable ? -EACCES : 0;
}
#endif

/* 7.0: no driver imports memory that is pinned and revocable. */
#ifdef HAS_UMEM_REVOCABLE
enum { EXT_UMEM_REVOCABLE = 1 };
#else
enum { EXT_UMEM_REVOCABLE = 0 };

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_pinned_revocable_and_lock(struct ib_device *device, unsigned long offset,
					     size_t size, int fd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void ib_umem_dmabuf_set_revoke_locked(struct ib_umem_dmabuf *umem,
						    void (*revoke)(void *priv), void *priv)
{
}

static inline void ib_umem_dmabuf_revoke_lock(struct ib_umem_dmabuf *umem)
{
	dma_resv_lock(umem->attach->dmabuf->resv, NULL);
}

static inline void ib_umem_dmabuf_revoke_unlock(struct ib_umem_dmabuf *umem)
{
	dma_resv_unlock(umem->attach->dmabuf->resv);
}
#endif

/* 7.0, 7.1: the address has the type of a pointer. */
static inline unsigned long ext_umem_find_best_pgsz(struct ib_umem *umem, unsigned long sizes, u64 iova)
{
	return ib_umem_find_best_pgsz(umem, sizes, iova);
}

#endif
