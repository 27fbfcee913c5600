// SPDX-License-Identifier: GPL-2.0
/*
 * Two clients of a module that does not depend on ib_peer_mem: it finds the functions by
 * symbol_get() and gives the symbols back at once, as host_roce does. The clients claim no memory.
 */
#include <linux/module.h>

/* The name by which existing drivers include the header. */
#include <rdma/peer_mem.h>

static typeof(ib_unregister_peer_memory_client) *unregister;
static void *handles[2];

static int acquire(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	return 0;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	return -EINVAL;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	return -EINVAL;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	return 0;
}

static void put_pages(struct sg_table *table, void *context)
{
}

#define TEST_CLIENT(n)                                                                      \
	{                                                                                   \
		.name = n, .version = "1", .acquire = acquire, .get_pages = get_pages,      \
		.dma_map = dma_map, .dma_unmap = dma_unmap, .put_pages = put_pages,         \
	}

static const struct peer_memory_client clients[2] = {
	TEST_CLIENT("HOST RoCE Notify"),
	TEST_CLIENT("HOST RoCE"),
};

static int __init test_init(void)
{
	typeof(ib_register_peer_memory_client) *do_register;
	invalidate_peer_memory invalidate;
	int i;

	do_register = symbol_get(ib_register_peer_memory_client);
	if (!do_register)
		return -ENOENT;
	unregister = symbol_get(ib_unregister_peer_memory_client);
	for (i = 0; unregister && i < ARRAY_SIZE(handles); i++)
		handles[i] = do_register(&clients[i], i ? NULL : &invalidate);
	symbol_put(ib_register_peer_memory_client);
	if (unregister)
		symbol_put(ib_unregister_peer_memory_client);
	return handles[0] && handles[1] ? 0 : -EINVAL;
}

static void __exit test_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(handles); i++)
		unregister(handles[i]);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Clients that give the symbols of ib_peer_mem back");
MODULE_LICENSE("GPL");
