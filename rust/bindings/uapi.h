/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the ioctl ABI of both modules. */
#include <uapi/ib_peer_mem.h>
#include <uapi/io_peer_mem.h>

/**
 * struct dmabuf_reg_request - argument of the ioctl of /dev/dmabuf_reg, a protocol of libfabric
 * @base: address in the calling process
 * @size: length in bytes
 * @fd: number of the file descriptor of the dma-buf
 * @op: what to do
 */
struct dmabuf_reg_request {
	__u64 base;
	__u64 size;
	__s32 fd;
	__u32 op;
};

/* bindgen does not evaluate _IOWR(). bindings.mk removes the prefix. */
const __u32 EXT_CONST_IB_PEER_MEM_IOC_EXPORT = IB_PEER_MEM_IOC_EXPORT;
const __u32 EXT_CONST_IB_PEER_MEM_IOC_NAME = IB_PEER_MEM_IOC_NAME;
const __u32 EXT_CONST_IB_PEER_MEM_IOC_UNNAME = IB_PEER_MEM_IOC_UNNAME;
const __u32 EXT_CONST_IB_PEER_MEM_IOC_QUERY = IB_PEER_MEM_IOC_QUERY;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_RANGE = IO_PEER_MEM_IOC_RANGE;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_NEAREST = IO_PEER_MEM_IOC_NEAREST;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_ALLOC = IO_PEER_MEM_IOC_DM_ALLOC;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_CAPACITY = IO_PEER_MEM_IOC_DM_CAPACITY;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_INFO = IO_PEER_MEM_IOC_DM_INFO;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_FREE = IO_PEER_MEM_IOC_DM_FREE;
