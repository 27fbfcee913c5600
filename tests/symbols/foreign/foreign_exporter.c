// SPDX-License-Identifier: GPL-2.0
/* Exports the functions of the API, as the kernels and stacks of some vendors do. */
#include <linux/module.h>
#include <rdma/peer_mem.h>

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *invalidate)
{
	return NULL;
}
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *handle)
{
}
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A test: another module with the functions of ib_peer_mem");
