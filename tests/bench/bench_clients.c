// SPDX-License-Identifier: GPL-2.0
/*
 * Registers clients=N clients that claim no memory and require invalidation, as those of GPU
 * drivers do; with name=NAME one with that name.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/peer_mem.h>

static unsigned int clients = 1;
module_param(clients, uint, 0444);
MODULE_PARM_DESC(clients, "number of clients");

static char *name;
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "the name of the only client");

struct bench_client {
	struct peer_memory_client client;
	void *handle;
};

static struct bench_client *list;
static invalidate_peer_memory invalidate;

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

static void unregister_all(void)
{
	unsigned int i;

	for (i = 0; i < clients; i++)
		if (list[i].handle)
			ib_unregister_peer_memory_client(list[i].handle);
	kvfree(list);
}

static int __init bench_clients_init(void)
{
	unsigned int i;

	if (name)
		clients = 1;
	list = kvcalloc(clients, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	for (i = 0; i < clients; i++) {
		struct peer_memory_client *client = &list[i].client;

		if (name)
			strscpy(client->name, name);
		else
			snprintf(client->name, sizeof(client->name), "bench_client_%u", i);
		strscpy(client->version, "1");
		client->acquire = acquire;
		client->get_pages = get_pages;
		client->dma_map = dma_map;
		client->dma_unmap = dma_unmap;
		client->put_pages = put_pages;
		list[i].handle = ib_register_peer_memory_client(client, &invalidate);
		if (!list[i].handle) {
			unregister_all();
			return -EINVAL;
		}
	}
	return 0;
}

static void __exit bench_clients_exit(void)
{
	unregister_all();
}

module_init(bench_clients_init);
module_exit(bench_clients_exit);
MODULE_DESCRIPTION("Clients that claim no memory, for measurements");
MODULE_LICENSE("GPL");
