// SPDX-License-Identifier: GPL-2.0
/*
 * A client with declarations of its own in place of the installed header's, as vendors' drivers have them: the
 * structure and the extended one. No code of vendors is here. The build fails if a member is elsewhere than in
 * the installed header.
 */
#include <linux/module.h>

#define peer_memory_client installed_client
#define peer_memory_client_ex installed_client_ex
#define invalidate_peer_memory installed_invalidate
#define ib_register_peer_memory_client installed_register
#define ib_unregister_peer_memory_client installed_unregister
#include <rdma/peer_mem.h>
#undef peer_memory_client
#undef peer_memory_client_ex
#undef invalidate_peer_memory
#undef ib_register_peer_memory_client
#undef ib_unregister_peer_memory_client

struct own_client {
	char name[64];
	char version[16];
	int (*acquire)(unsigned long addr, size_t size, void *data, char *name, void **context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg, void *context, u64 core_context);
	int (*dma_map)(struct sg_table *sg, void *context, struct device *dev, int dmasync,
		       int *nmap);
	int (*dma_unmap)(struct sg_table *sg, void *context, struct device *dev);
	void (*put_pages)(struct sg_table *sg, void *context);
	unsigned long (*get_page_size)(void *context);
	void (*release)(void *context);
};

#define SAME(member) \
	static_assert(offsetof(struct own_client, member) == offsetof(struct installed_client, member))
SAME(name);
SAME(version);
SAME(acquire);
SAME(get_pages);
SAME(dma_map);
SAME(dma_unmap);
SAME(put_pages);
SAME(get_page_size);
SAME(release);
static_assert(sizeof(struct own_client) == sizeof(struct installed_client));

struct own_client_ex {
	struct own_client client;
	size_t ex_size;
	u32 flags;
};
static_assert(offsetof(struct own_client_ex, ex_size) ==
	      offsetof(struct installed_client_ex, ex_size));
static_assert(offsetof(struct own_client_ex, flags) ==
	      offsetof(struct installed_client_ex, flags));
static struct own_client_ex own = {
	.client = { .name = "own_header", .version = "1" }, .ex_size = sizeof(own),
};

typedef int (*own_invalidate)(void *handle, u64 core_context);
void *ib_register_peer_memory_client(struct own_client *client, own_invalidate *invalidate);
void ib_unregister_peer_memory_client(void *handle);

static own_invalidate invalidate;
static void *handle;

static int __init own_header_init(void)
{
	handle = ib_register_peer_memory_client(&own.client, &invalidate);
	return handle ? 0 : -EINVAL;
}

static void __exit own_header_exit(void)
{
	ib_unregister_peer_memory_client(handle);
}

module_init(own_header_init);
module_exit(own_header_exit);
MODULE_DESCRIPTION("A test: a client with a header of its own");
MODULE_LICENSE("GPL");
