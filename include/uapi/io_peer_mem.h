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

#define IO_PEER_MEM_NEAREST_VERSION 1

/* In @flags of struct io_peer_mem_nearest: what the answer holds. */
#define IO_PEER_MEM_NEAREST_FOUND (1 << 0)
#define IO_PEER_MEM_NEAREST_HERE (1 << 1)

/**
 * struct io_peer_mem_nearest - whose memory is nearest to a device
 * @version: in: IO_PEER_MEM_NEAREST_VERSION
 * @flags: in: 0; out: IO_PEER_MEM_NEAREST_*
 * @domain: in: of the PCI function that shall reach the memory
 * @address: in: its bus << 8 | device << 3 | function
 * @provider_domain: out, with FOUND: the nearest function that offers memory
 * @provider_address: out, with FOUND: its address, as above
 * @provider_distance: out, with FOUND: how far it is
 * @distance: out, with HERE: how far the function of this device is
 * @reserved: must be 0
 *
 * A distance is that of the kernel's p2pdma: 0 for a function itself, 2 within a
 * device, 4 below one switch. Without a flag there is no way that the kernel knows.
 */
struct io_peer_mem_nearest {
	__u32 version;
	__u32 flags;
	__u32 domain;
	__u32 address;
	__u32 provider_domain;
	__u32 provider_address;
	__u32 provider_distance;
	__u32 distance;
	__u64 reserved[4];
};

#define IO_PEER_MEM_IOC_NEAREST _IOWR(IO_PEER_MEM_IOC_MAGIC, 2, struct io_peer_mem_nearest)

/*
 * Device memory, with the semantics of ibv_alloc_dm(3). In all of these @version is
 * IO_PEER_MEM_DM_VERSION, and @flags is 0: there are none yet.
 */
#define IO_PEER_MEM_DM_VERSION 1

/**
 * struct io_peer_mem_dm_alloc - allocate memory of a BAR; on the BAR's device
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @length: in: bytes
 * @log_align: in: the address shall be a multiple of 1 << log_align
 * @fd: out: the allocation, with O_CLOEXEC, and the access mode of the device file
 * @bar_offset: out: offset in bytes from the start of the BAR
 * @reserved: must be 0
 *
 * The allocation is free when its last file descriptor, mapping and memory region
 * are gone. mmap(2) with MAP_SHARED maps it, from any page of it on.
 */
struct io_peer_mem_dm_alloc {
	__u32 version;
	__u32 flags;
	__aligned_u64 length;
	__u32 log_align;
	__s32 fd;
	__aligned_u64 bar_offset;
	__aligned_u64 reserved[4];
};

/**
 * struct io_peer_mem_dm_capacity - how much memory a BAR has; on the BAR's device
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @total: out: bytes, whoever has them
 * @free: out: bytes that nobody has now
 * @largest: out: the most of these that are in one piece
 * @page_size: out: what allocations are rounded up to
 * @reserved: must be 0
 */
struct io_peer_mem_dm_capacity {
	__u32 version;
	__u32 flags;
	__aligned_u64 total;
	__aligned_u64 free;
	__aligned_u64 largest;
	__aligned_u64 page_size;
	__aligned_u64 reserved[3];
};

/**
 * struct io_peer_mem_dm_info - what an allocation is; on the allocation
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @length: out: bytes, as they were asked for
 * @size: out: bytes that can be mapped: whole pages
 * @bar_offset: out: offset in bytes from the start of the BAR
 * @domain: out: of the PCI function
 * @address: out: its bus << 8 | device << 3 | function
 * @bar: out: the BAR's number
 * @pad: out: 0
 * @reserved: must be 0
 */
struct io_peer_mem_dm_info {
	__u32 version;
	__u32 flags;
	__aligned_u64 length;
	__aligned_u64 size;
	__aligned_u64 bar_offset;
	__u32 domain;
	__u32 address;
	__u32 bar;
	__u32 pad;
	__aligned_u64 reserved[2];
};

/**
 * struct io_peer_mem_dm_free - free an allocation that is not in use; on the allocation
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @reserved: must be 0
 */
struct io_peer_mem_dm_free {
	__u32 version;
	__u32 flags;
	__aligned_u64 reserved[3];
};

#define IO_PEER_MEM_IOC_DM_ALLOC _IOWR(IO_PEER_MEM_IOC_MAGIC, 0x10, struct io_peer_mem_dm_alloc)
#define IO_PEER_MEM_IOC_DM_CAPACITY \
	_IOWR(IO_PEER_MEM_IOC_MAGIC, 0x11, struct io_peer_mem_dm_capacity)
#define IO_PEER_MEM_IOC_DM_INFO _IOWR(IO_PEER_MEM_IOC_MAGIC, 0x12, struct io_peer_mem_dm_info)
#define IO_PEER_MEM_IOC_DM_FREE _IOW(IO_PEER_MEM_IOC_MAGIC, 0x13, struct io_peer_mem_dm_free)

#endif /* IO_PEER_MEM_UAPI_H */
