/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer memory: RDMA to and from memory that a driver owns and a CPU page walk
 * cannot pin (GPU, FPGA, SSD).
 *
 * This is the C ABI of ib_peer_mem.ko. Drivers in the field were built against
 * it; nothing here may change its layout or meaning. The API's own description
 * is Documentation/client-api.rst.
 */
#ifndef IB_PEER_MEM_H
#define IB_PEER_MEM_H

#include <linux/types.h>

struct device;
struct ib_ucontext;
struct sg_table;

#define IB_PEER_MEMORY_NAME_MAX 64
#define IB_PEER_MEMORY_VER_MAX 16

/*
 * core_context is a u64. Older clients declared it void *; only its low 32 bits
 * are ever used, so both are called alike.
 */
#define PEER_MEM_U64_CORE_CONTEXT

/**
 * struct peer_memory_client - what a driver that owns memory registers
 * @name: unique name; also the folder below /sys/kernel/mm/memory_peers
 * @version: free text, shown in that folder
 * @acquire: does [@addr, @addr + @size) of the calling process belong to this
 *	client? 1: yes, and *@client_context stands for the range from now on;
 *	0 or -errno: no
 * @get_pages: pin the range; a client whose memory has struct pages allocates
 *	and fills @sg_head here. @write is always 1, @force is 1 where the region
 *	is to be writable. @core_context names the region in the invalidate
 *	callback. 0 or -errno
 * @dma_map: make the range reachable by @dma_device: DMA address and length of
 *	each entry of @sg_head, the number of mapped entries in *@nmap. @dmasync
 *	is 0. 0 or -errno
 * @dma_unmap: undo @dma_map
 * @put_pages: undo @get_pages
 * @get_page_size: bytes in a page of the range, a power of two; the table of
 *	@get_pages starts at the range's start rounded down to it. May be NULL:
 *	PAGE_SIZE
 * @release: undo @acquire. May be NULL
 *
 * Every callback may sleep; none is called with a lock of the core held.
 * @acquire, @get_pages and @dma_map run in the process that registers the
 * memory; the others may run in any task. The structure stays the client's and
 * must live until ib_unregister_peer_memory_client() has returned.
 */
struct peer_memory_client {
	char name[IB_PEER_MEMORY_NAME_MAX];
	char version[IB_PEER_MEMORY_VER_MAX];
	int (*acquire)(unsigned long addr, size_t size,
		       void *peer_mem_private_data, char *peer_mem_name,
		       void **client_context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg_head, void *client_context,
			 u64 core_context);
	int (*dma_map)(struct sg_table *sg_head, void *client_context,
		       struct device *dma_device, int dmasync, int *nmap);
	int (*dma_unmap)(struct sg_table *sg_head, void *client_context,
			 struct device *dma_device);
	void (*put_pages)(struct sg_table *sg_head, void *client_context);
	unsigned long (*get_page_size)(void *client_context);
	void (*release)(void *client_context);
};

/* During an invalidation the client unmaps and puts its pages itself. */
#define PEER_MEM_INVALIDATE_UNMAPS (1 << 0)

/**
 * struct peer_memory_client_ex - a client with flags
 * @client: its version[IB_PEER_MEMORY_VER_MAX - 1] is not 0: this tells the core
 *	that the rest is there
 * @ex_size: sizeof(struct peer_memory_client_ex)
 * @flags: PEER_MEM_*
 */
struct peer_memory_client_ex {
	struct peer_memory_client client;
	size_t ex_size;
	u32 flags;
};

/**
 * typedef invalidate_peer_memory - take a region away from the adapter
 * @reg_handle: what ib_register_peer_memory_client() returned
 * @core_context: the region, as get_pages got it
 *
 * When it returns, the adapter can no longer touch the memory and, unless the
 * client is PEER_MEM_INVALIDATE_UNMAPS, dma_unmap and put_pages have been
 * called, in the calling task. A region that is gone or unknown is no error.
 *
 * Where another task has begun to undo, that one calls them, perhaps only just
 * after this has returned.
 *
 * Context: may sleep. The caller may hold locks that its callbacks take, as long
 * as dma_unmap and put_pages know the calling task, but none that get_page_size
 * or dma_map takes: this waits for a registration that is under way. Not from
 * inside a callback, and not from reclaim (a shrinker, an MMU notifier).
 * Return: 0.
 */
typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

/**
 * ib_register_peer_memory_client - offer a client's memory to RDMA devices
 * @peer_client: see struct peer_memory_client
 * @invalidate_callback: where not NULL, *@invalidate_callback is set to the
 *	invalidate function, and the client *requires* invalidation: it is only
 *	asked about memory for devices that can be made to stop
 *
 * Context: may sleep.
 * Return: a handle, or NULL (one line in the log says why).
 */
void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback);

/**
 * ib_unregister_peer_memory_client - take a client back
 * @reg_handle: what ib_register_peer_memory_client() returned
 *
 * Live regions are revoked: their owners keep memory regions that answer with a
 * remote access error. When it returns, no callback runs and none will.
 *
 * Context: may sleep; not from a callback, and with no lock held that a callback
 * takes.
 */
void ib_unregister_peer_memory_client(void *reg_handle);

/**
 * ib_peer_mem_set_hint - tell clients about the memory of a user context
 * @context: a user context of an RDMA device
 * @name: what acquire() gets as peer_mem_name for memory that is registered in
 *	this context, at most IB_PEER_MEMORY_NAME_MAX - 1 bytes; may be NULL
 * @private_data: what it gets as peer_mem_private_data; may be NULL
 *
 * For a kernel driver that opens a user context, or has one handed to it, and
 * lets its client recognise the memory by this. Replaces an earlier hint. The
 * hint goes with the context, or by ib_peer_mem_clear_hint(); @name is copied,
 * @private_data must be valid until then.
 *
 * Context: may sleep. The context must not be destroyed during the call.
 * Return: 0, -EINVAL for a name that is too long, -ENODEV where the device is
 * not one that serves peer memory, -ENOMEM.
 */
int ib_peer_mem_set_hint(struct ib_ucontext *context, const char *name,
			 void *private_data);

/**
 * ib_peer_mem_clear_hint - take a hint back
 * @context: the user context; one without a hint is no error
 *
 * An acquire() that has begun may still see the hint.
 *
 * Context: may sleep. The context must not be destroyed during the call.
 */
void ib_peer_mem_clear_hint(struct ib_ucontext *context);

#endif /* IB_PEER_MEM_H */
