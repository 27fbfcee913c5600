/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of ib_core, for bindgen and the test devices: what differs between kernels, see compat.h, above
 * all functions that an earlier kernel lacks.
 */
#ifndef EXT_HELPERS_COMPAT_RDMA_H
#define EXT_HELPERS_COMPAT_RDMA_H

#include <linux/dma-resv.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

/* bindgen's type of the enum differs from the driver's function for kCFI. */
static inline struct ib_mr *ext_ib_alloc_mr(struct ib_pd *pd, u32 pages)
{
	if (!pd->device->ops.alloc_mr)
		return ERR_PTR(-EOPNOTSUPP);
	return pd->device->ops.alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages);
}

/* 7.1: the type of the iova, which has the same size. */
static inline unsigned long ext_umem_find_best_pgsz(struct ib_umem *umem, unsigned long sizes, u64 iova)
{
	return ib_umem_find_best_pgsz(umem, sizes, iova);
}

/* 7.1: memory is pinned by its address alone. ib_uverbs pins the buffer that a request names. */
#ifndef HAVE_UMEM_DESC
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}

static inline struct ib_umem *ib_umem_get_cq_buf_or_va(struct ib_device *device,
						       const struct uverbs_attr_bundle *attrs,
						       u64 addr, size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* 7.0: nothing checks whether an MR can have other rights to a umem. */
#ifndef HAVE_UMEM_REREG
static inline int ib_umem_check_rereg(struct ib_umem *umem, int flags, int new_access_flags)
{
	bool writable = !(flags & IB_MR_REREG_ACCESS) || ib_access_writable(new_access_flags);

	return writable && !umem->writable ? -EACCES : 0;
}
#endif

/* 7.0: an importer that pins cannot be revoked. The functions are not called then. */
#ifndef HAVE_UMEM_REVOCABLE
enum { EXT_UMEM_REVOCABLE = 0 };

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_pinned_revocable_and_lock(struct ib_device *device, unsigned long offset,
					     size_t size, int fd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void ib_umem_dmabuf_set_revoke_locked(struct ib_umem_dmabuf *umem_dmabuf,
						    void (*revoke)(void *priv), void *priv)
{
}

static inline void ib_umem_dmabuf_revoke_lock(struct ib_umem_dmabuf *umem_dmabuf)
{
	dma_resv_lock(umem_dmabuf->attach->dmabuf->resv, NULL);
}

static inline void ib_umem_dmabuf_revoke_unlock(struct ib_umem_dmabuf *umem_dmabuf)
{
	dma_resv_unlock(umem_dmabuf->attach->dmabuf->resv);
}
#else
enum { EXT_UMEM_REVOCABLE = 1 };
#endif

#endif
