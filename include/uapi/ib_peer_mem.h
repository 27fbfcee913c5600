/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * /dev/ib_peer_mem: exports peer memory as dma-bufs, and names memory that is a dma-buf.
 */
#ifndef IB_PEER_MEM_UAPI_H
#define IB_PEER_MEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IB_PEER_MEM_IOC_MAGIC 0xBC

#define IB_PEER_MEM_EXPORT_VERSION 1

/**
 * struct ib_peer_mem_export - export peer memory as a dma-buf
 * @version: in: IB_PEER_MEM_EXPORT_VERSION
 * @flags: in: must be 0
 * @addr: in: address in the calling process; whole pages
 * @length: in: length in bytes; whole pages
 * @fd: out: the dma-buf, close-on-exec
 * @pad: in: must be 0
 * @reserved: in: must be 0
 *
 * The peer memory clients are asked in the order of their registration, as for a memory
 * region; the first that claims the range pins it. The dma-buf serves one device, the
 * first that imports it, which may import it many times. The memory is unpinned when the
 * last importer detaches, or when all file descriptors are closed without an import;
 * later imports fail. If the client requires invalidation, the importer must support it.
 */
struct ib_peer_mem_export {
	__u32 version;
	__u32 flags;
	__aligned_u64 addr;
	__aligned_u64 length;
	__s32 fd;
	__u32 pad;
	__aligned_u64 reserved[3];
};

#define IB_PEER_MEM_IOC_EXPORT _IOWR(IB_PEER_MEM_IOC_MAGIC, 1, struct ib_peer_mem_export)

#define IB_PEER_MEM_NAME_VERSION 1

/* IB_PEER_MEM_IOC_UNNAME: the names of the dma-buf fd, wherever they are. */
#define IB_PEER_MEM_UNNAME_DMABUF (1U << 0)
/* IB_PEER_MEM_IOC_NAME: in place of the names that are there. Older modules return EINVAL. */
#define IB_PEER_MEM_NAME_REPLACE (1U << 1)

/**
 * struct ib_peer_mem_name - name memory: say of which dma-buf it is a part
 * @version: in: IB_PEER_MEM_NAME_VERSION
 * @flags: in: 0, or for IB_PEER_MEM_IOC_UNNAME IB_PEER_MEM_UNNAME_DMABUF, or for
 *         IB_PEER_MEM_IOC_NAME IB_PEER_MEM_NAME_REPLACE
 * @addr: address in the calling process; whole pages
 * @length: length in bytes; whole pages
 * @offset: where the memory begins in the dma-buf, in bytes; whole pages
 * @fd: file descriptor of the dma-buf; may be closed once the memory has a name
 * @pad: in: must be 0
 * @reserved: in: must be 0
 *
 * IB_PEER_MEM_IOC_NAME gives a name to memory of the calling process that is a part of a
 * dma-buf, but cannot be found by its mapping: ibv_reg_mr() of a range with a name then
 * registers that part of the dma-buf. Names belong to the address space: they end with its
 * last process, or when that executes another program, and fork() does not copy them. The
 * same name can be given many times, and is to be removed as often. With
 * IB_PEER_MEM_NAME_REPLACE other names may be in the range: they end, with all references, and
 * what is outside of the range keeps its name. A registration finds the old names or the new one.
 *
 * IB_PEER_MEM_IOC_UNNAME removes one reference of each name in the range @addr, @length; with
 * IB_PEER_MEM_UNNAME_DMABUF, and no range, one of each name of the dma-buf @fd.
 *
 * IB_PEER_MEM_IOC_QUERY returns the name of the memory at @addr, any address: the range, its
 * @offset, and the number @fd with which it was named, which may be closed or another file.
 */
struct ib_peer_mem_name {
	__u32 version;
	__u32 flags;
	__aligned_u64 addr;
	__aligned_u64 length;
	__aligned_u64 offset;
	__s32 fd;
	__u32 pad;
	__aligned_u64 reserved[3];
};

#define IB_PEER_MEM_IOC_NAME _IOW(IB_PEER_MEM_IOC_MAGIC, 2, struct ib_peer_mem_name)
#define IB_PEER_MEM_IOC_UNNAME _IOW(IB_PEER_MEM_IOC_MAGIC, 3, struct ib_peer_mem_name)
#define IB_PEER_MEM_IOC_QUERY _IOWR(IB_PEER_MEM_IOC_MAGIC, 4, struct ib_peer_mem_name)

#endif
