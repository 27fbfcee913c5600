/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/ib_peer_mem: peer memory for whoever imports dma-bufs.
 */
#ifndef IB_PEER_MEM_UAPI_H
#define IB_PEER_MEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IB_PEER_MEM_IOC_MAGIC 0xB8

#define IB_PEER_MEM_EXPORT_VERSION 1

/**
 * struct ib_peer_mem_export - make a dma-buf of peer memory
 * @version: in: IB_PEER_MEM_EXPORT_VERSION
 * @flags: in: must be 0
 * @addr: in: where it is in the calling process; whole pages
 * @length: in: its bytes; whole pages
 * @fd: out: the dma-buf, close-on-exec
 * @pad: in: must be 0
 * @reserved: in: must be 0
 *
 * The registered peer memory clients are asked in the order of their
 * registration, as for a memory region, and the first that says that the range
 * is its memory has it pinned. The dma-buf is for one device: the first that
 * imports it, which may do so many times. When the last importer has let go, or
 * all its file descriptors are closed, the memory is given back. A client that
 * takes memory back takes it from the importers, so they have to be such that
 * can be told.
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
