/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The character devices of io_peer_mem, /dev/io_peer_mem/BDF/barN: what user
 * space may ask of them. mmap(2) with MAP_SHARED and offset 0 allocates a range
 * of the BAR; see Documentation/io_peer_mem.rst.
 */
#ifndef IO_PEER_MEM_UAPI_H
#define IO_PEER_MEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IO_PEER_MEM_IOC_MAGIC 0xB7

/**
 * struct io_peer_mem_range - where in the BAR a mapping of the caller lies
 * @addr: in: an address in a mapping of this device by the calling process
 * @bar_offset: out: offset in bytes of that address from the start of the BAR
 * @length: out: bytes from @addr to the end of its mapped range
 * @reserved: must be 0
 */
struct io_peer_mem_range {
	__u64 addr;
	__u64 bar_offset;
	__u64 length;
	__u64 reserved;
};

#define IO_PEER_MEM_IOC_RANGE _IOWR(IO_PEER_MEM_IOC_MAGIC, 1, struct io_peer_mem_range)

#endif /* IO_PEER_MEM_UAPI_H */
