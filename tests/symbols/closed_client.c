// SPDX-License-Identifier: GPL-2.0
/*
 * A client under the GPL that needs symbols of ib_peer_mem and of closed_provider: the kernel
 * does not load it.
 */
#include <linux/module.h>
#include <rdma/peer_mem.h>

int closed_provider_pages(void);

static int __init closed_client_init(void)
{
	static const struct peer_memory_client client;

	return closed_provider_pages() || ib_register_peer_memory_client(&client, NULL) ? 0 : -EINVAL;
}
module_init(closed_client_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A test: a client that needs a module which is not under the GPL");
