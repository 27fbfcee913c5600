/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the ioctl ABI of both modules. */
#include <uapi/ib_peer_mem.h>
#include <uapi/io_peer_mem.h>

/* bindgen does not evaluate _IOWR(). bindings.mk removes the prefix. */
const __u32 EXT_CONST_IB_PEER_MEM_IOC_EXPORT = IB_PEER_MEM_IOC_EXPORT;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_RANGE = IO_PEER_MEM_IOC_RANGE;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_NEAREST = IO_PEER_MEM_IOC_NEAREST;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_ALLOC = IO_PEER_MEM_IOC_DM_ALLOC;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_CAPACITY = IO_PEER_MEM_IOC_DM_CAPACITY;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_INFO = IO_PEER_MEM_IOC_DM_INFO;
const __u32 EXT_CONST_IO_PEER_MEM_IOC_DM_FREE = IO_PEER_MEM_IOC_DM_FREE;
