/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * /dev/ib_peer_mem: exports peer memory as dma-bufs.
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

#endif
