// SPDX-License-Identifier: GPL-2.0
/*
 * A module that finds the two functions by symbol_get(), as drivers do that work with
 * and without peer memory: it can be loaded without ib_peer_mem.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

/* The name by which existing drivers include the header. */
#include <rdma/peer_mem.h>

static typeof(ib_register_peer_memory_client) *test_register;
static typeof(ib_unregister_peer_memory_client) *test_unregister;

static int __init test_init(void)
{
	test_register = symbol_get(ib_register_peer_memory_client);
	if (!test_register)
		return -ENOENT;
	test_unregister = symbol_get(ib_unregister_peer_memory_client);
	if (!test_unregister) {
		symbol_put(ib_register_peer_memory_client);
		return -ENOENT;
	}
	/* Calls it: a NULL client fails with a line in the log. */
	if (test_register(NULL, NULL)) {
		symbol_put(ib_unregister_peer_memory_client);
		symbol_put(ib_register_peer_memory_client);
		return -EINVAL;
	}
	pr_info("found both\n");
	return 0;
}

static void __exit test_exit(void)
{
	symbol_put(ib_unregister_peer_memory_client);
	symbol_put(ib_register_peer_memory_client);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Test of symbol_get() of the peer memory functions");
MODULE_LICENSE("GPL");
