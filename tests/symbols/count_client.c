// SPDX-License-Identifier: GPL-2.0
/*
 * A client that claims no memory, of the name in the parameter name.
 * /sys/module/count_client/parameters/calls counts its callbacks.
 */
#include <linux/atomic.h>
#include <linux/module.h>
#include <rdma/peer_mem.h>

static atomic_t calls = ATOMIC_INIT(0);
static void *handle;

static int acquire(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	atomic_inc(&calls);
	return 0;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *table, void *context, u64 core_context)
{
	atomic_inc(&calls);
	return -EINVAL;
}

static int dma_map(struct sg_table *table, void *context, struct device *dev, int dmasync,
		   int *nmap)
{
	atomic_inc(&calls);
	return -EINVAL;
}

static int dma_unmap(struct sg_table *table, void *context, struct device *dev)
{
	atomic_inc(&calls);
	return 0;
}

static void put_pages(struct sg_table *table, void *context)
{
	atomic_inc(&calls);
}

static struct peer_memory_client client = {
	.name = "count_client",
	.version = "1",
	.acquire = acquire,
	.get_pages = get_pages,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
};

static int calls_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&calls));
}

static const struct kernel_param_ops calls_ops = { .get = calls_get };
module_param_cb(calls, &calls_ops, NULL, 0444);
module_param_string(name, client.name, sizeof(client.name), 0444);

static int __init count_client_init(void)
{
	handle = ib_register_peer_memory_client(&client, NULL);
	return handle ? 0 : -EINVAL;
}

static void __exit count_client_exit(void)
{
	ib_unregister_peer_memory_client(handle);
}

module_init(count_client_init);
module_exit(count_client_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Counts the callbacks of a client that claims no memory");
