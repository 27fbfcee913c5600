/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Peer memory: RDMA to and from memory that a driver owns and the kernel cannot pin
 * by a page walk (GPU, FPGA, SSD).
 *
 * This is the C ABI of ib_peer_mem.ko. Existing drivers were built against it: layout
 * and meaning must not change. See Documentation/client-api.rst.
 */
#ifndef IB_PEER_MEM_H
#define IB_PEER_MEM_H

/* The same headers as the vendor's: some clients rely on them. */
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/types.h>

struct device;
struct ib_ucontext;

#define IB_PEER_MEMORY_NAME_MAX 64
#define IB_PEER_MEMORY_VER_MAX 16

/*
 * core_context is a u64. Older clients declared it void *. Only its low 32 bits are
 * used, so both have the same calling convention.
 */
#define PEER_MEM_U64_CORE_CONTEXT

/**
 * struct peer_memory_client - callbacks of a driver that owns memory
 * @name: unique name; also the directory in /sys/kernel/mm/memory_peers
 * @version: free text, shown in that directory
 * @acquire: returns whether [@addr, @addr + @size) of the calling process belongs
 *	to this client. > 0: the client claims the range, and *@client_context
 *	identifies it in the other callbacks; 0 or -errno: it does not
 * @get_pages: pins the range; a client whose memory has struct pages allocates
 *	and fills @sg_head here. @write is always 1. @force is 1 if the MR may be
 *	written; other cores pass 1 if the MR may *not* be written, so a client
 *	must not take permission from @force. @core_context identifies the region
 *	in the invalidate function. @sg_head lives until @release has returned.
 *	Returns 0 or -errno
 * @dma_map: maps the range for @dma_device: sets DMA address and length of each
 *	entry of @sg_head, and *@nmap to the number of mapped entries; without
 *	that, the table's nents counts. @dmasync is 0. Returns 0 or -errno
 * @dma_unmap: undoes @dma_map
 * @put_pages: undoes @get_pages
 * @get_page_size: returns the page size of the range in bytes, a power of two;
 *	the table of @get_pages starts at the start of the range rounded down to
 *	it. May be NULL: PAGE_SIZE
 * @release: undoes @acquire. May be NULL
 *
 * Every callback may sleep; the core holds no lock during a call. @acquire and
 * @get_pages run in the process that registers the memory. So does @dma_map, but
 * for memory that a process exports as a dma-buf it runs in the process that
 * imports the dma-buf, which may be another one. The others may run in any task.
 * The client owns the structure, which must stay valid until
 * ib_unregister_peer_memory_client() has returned.
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

/*
 * Flags of an extended client:
 * PEER_MEM_INVALIDATE_UNMAPS: during an invalidation the client unmaps and puts its
 *	pages itself; the core calls neither dma_unmap nor put_pages.
 * PEER_MEM_MEMORY_PINNABLE: the CPU can pin this client's memory (RAM): ask this client
 *	before the memory is pinned. The core may ask other clients only about memory
 *	that it could not pin.
 * PEER_MEM_MAPS_FOR_ANY_DEVICE: dma_map works for every kind of device. Otherwise it is
 *	called only with the DMA device of an RDMA adapter, also if a process exports the
 *	memory as a dma-buf: another importer fails.
 */
#define PEER_MEM_INVALIDATE_UNMAPS (1 << 0)
#define PEER_MEM_MEMORY_PINNABLE (1 << 1)
#define PEER_MEM_MAPS_FOR_ANY_DEVICE (1 << 2)

/**
 * struct peer_memory_client_ex - a client with flags
 * @client: a version[IB_PEER_MEMORY_VER_MAX - 1] other than 0 marks the extended
 *	structure
 * @ex_size: sizeof(struct peer_memory_client_ex)
 * @flags: PEER_MEM_*
 */
struct peer_memory_client_ex {
	struct peer_memory_client client;
	size_t ex_size;
	u32 flags;
};

/**
 * typedef invalidate_peer_memory - invalidate a region
 * @reg_handle: the result of ib_register_peer_memory_client(). Until that has returned,
 *	when callbacks may run already: NULL, or anything that is not another handle
 * @core_context: the region, as passed to get_pages
 *
 * On return the adapter no longer accesses the memory. Unless the client is
 * PEER_MEM_INVALIDATE_UNMAPS, dma_unmap and put_pages have been called in the
 * calling task. An unknown region is not an error.
 *
 * If another task is already tearing the region down, that task calls dma_unmap and
 * put_pages, possibly shortly after this returns.
 *
 * Context: may sleep. The caller may hold locks that dma_unmap and put_pages take,
 * if these recognise the calling task, but no lock that get_page_size or dma_map
 * takes: this waits for a running registration. Must not be called from a callback
 * or from reclaim (a shrinker, an MMU notifier).
 * Return: 0.
 */
typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

/**
 * ib_register_peer_memory_client - register a peer memory client
 * @peer_client: see struct peer_memory_client
 * @invalidate_callback: if not NULL, *@invalidate_callback is set to the invalidate
 *	function, and the client *requires* invalidation: it only serves devices
 *	whose MRs can be revoked
 *
 * The client holds a reference to ib_peer_mem until it is unregistered, however it has
 * found this function.
 *
 * Context: may sleep.
 * Return: a handle, or NULL; the kernel log then has one line with the cause.
 */
void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback);

/**
 * ib_unregister_peer_memory_client - unregister a client
 * @reg_handle: the result of ib_register_peer_memory_client()
 *
 * Revokes live regions: an access to their MRs then fails with a remote access
 * error. No callback runs after this returns.
 *
 * Context: may sleep. Must not be called from a callback, nor with a lock held that
 * a callback takes.
 */
void ib_unregister_peer_memory_client(void *reg_handle);

/**
 * ib_peer_mem_set_hint - set the arguments of acquire() for a user context
 * @context: a user context of an RDMA device
 * @name: passed to acquire() as peer_mem_name for memory that is registered in this
 *	context, at most IB_PEER_MEMORY_NAME_MAX - 1 bytes; may be NULL
 * @private_data: passed to it as peer_mem_private_data; may be NULL
 *
 * For a kernel driver that has a user context and whose client identifies memory by
 * these arguments. Replaces an earlier hint. The hint is removed by
 * ib_peer_mem_clear_hint() or with the context. @name is copied; @private_data must
 * stay valid until the hint is removed.
 *
 * Context: may sleep. The context must not be destroyed during the call.
 * Return: 0, -EINVAL if the name is too long, -ENODEV if the device does not serve
 * peer memory, -ENOMEM.
 */
int ib_peer_mem_set_hint(struct ib_ucontext *context, const char *name,
			 void *private_data);

/**
 * ib_peer_mem_clear_hint - remove a hint
 * @context: the user context; it is not an error if it has no hint
 *
 * A running acquire() may still see the hint.
 *
 * Context: may sleep. The context must not be destroyed during the call.
 */
void ib_peer_mem_clear_hint(struct ib_ucontext *context);

#endif /* IB_PEER_MEM_H */
