/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * The ioctls of the character devices of io_peer_mem, /dev/io_peer_mem/BDF/barN.
 * mmap(2) with MAP_SHARED and offset 0 allocates a range of the BAR; see
 * Documentation/io_peer_mem.rst.
 */
#ifndef IO_PEER_MEM_UAPI_H
#define IO_PEER_MEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IO_PEER_MEM_IOC_MAGIC 0xBB

/**
 * struct io_peer_mem_range - find the place of a mapping in the BAR
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

/* In @flags of struct io_peer_mem_nearest: the valid results. */
#define IO_PEER_MEM_NEAREST_FOUND (1 << 0)
#define IO_PEER_MEM_NEAREST_HERE (1 << 1)

/**
 * struct io_peer_mem_nearest - find the memory nearest to a device
 * @version: in: IO_PEER_MEM_NEAREST_VERSION
 * @flags: in: 0; out: IO_PEER_MEM_NEAREST_*
 * @domain: in: of the PCI function that accesses the memory
 * @address: in: its bus << 8 | device << 3 | function
 * @provider_domain: out, with FOUND: of the nearest function with peer-to-peer memory
 * @provider_address: out, with FOUND: its bus << 8 | device << 3 | function
 * @provider_distance: out, with FOUND: its distance
 * @distance: out, with HERE: the distance of the function of this device
 * @reserved: must be 0
 *
 * Distances are those of the kernel's p2pdma: 0 for a function itself, 2 within a device,
 * 4 below one switch. A missing flag means that the kernel supports no peer-to-peer DMA.
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
 * Device memory, with the semantics of ibv_alloc_dm(3). In all structures @version is
 * IO_PEER_MEM_DM_VERSION and @flags is 0, but for IO_PEER_MEM_IOC_DM_ALLOC.
 */
#define IO_PEER_MEM_DM_VERSION 1

/* In @flags of struct io_peer_mem_dm_alloc: the memory is cleared, also with zero=never. */
#define IO_PEER_MEM_DM_ZERO (1 << 0)

/*
 * In the offset of mmap(2), of BAR devices and of allocations: the CPU combines writes, and may
 * reorder them. EINVAL if the BAR is not prefetchable. Without it accesses are uncached; on other
 * architectures than x86 only if the BAR is not prefetchable, since unaligned accesses fault there.
 */
#define IO_PEER_MEM_MMAP_WC (1ULL << 43)

/**
 * struct io_peer_mem_dm_alloc - allocate memory of a BAR; on the BAR's device
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0 or IO_PEER_MEM_DM_ZERO
 * @length: in: bytes
 * @log_align: in: alignment: the offset in the BAR is a multiple of 1 << log_align
 * @fd: out: the allocation, with O_CLOEXEC, and the access mode of the device file
 * @bar_offset: out: offset in bytes from the start of the BAR
 * @reserved: must be 0
 *
 * The allocation is freed with its last file descriptor, mapping and memory region.
 * mmap(2) with MAP_SHARED maps it; the offset may be any of its pages. read(2), pread(2), write(2)
 * and pwrite(2) copy by the kernel, and fail with ENODEV when the device is gone.
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
 * struct io_peer_mem_dm_capacity - query the memory of a BAR; on the BAR's device
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @total: out: bytes in all
 * @free: out: free bytes
 * @largest: out: bytes of the largest free range
 * @page_size: out: allocations are rounded up to this
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
 * struct io_peer_mem_dm_info - query an allocation; on the allocation
 * @version: in: IO_PEER_MEM_DM_VERSION
 * @flags: in: 0
 * @length: out: bytes, as requested
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
