// SPDX-License-Identifier: GPL-2.0
/*
 * The dispatch of a registration as the public descriptions of the first peer memory cores
 * have it ("Peer-Direct" patches on the linux-rdma list, 2014): one mutex protects the list of
 * clients, and every client is asked under it before the driver pins the memory. The clients=N
 * clients claim nothing. For measurements, beside the stock driver and in the place of
 * ib_peer_mem.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

static unsigned int clients = 1;
module_param(clients, uint, 0444);
MODULE_PARM_DESC(clients, "number of clients");

typedef typeof_member(struct ib_device_ops, reg_user_mr) reg_user_mr_t;

struct vendor_client {
	struct list_head list;
	int (*acquire)(unsigned long addr, size_t size, void *private_data, char *name,
		       void **context);
};

static LIST_HEAD(client_list);
static DEFINE_MUTEX(client_mutex);

static int decline(unsigned long addr, size_t size, void *private_data, char *name,
		   void **context)
{
	return 0;
}

static struct vendor_client *find_client(unsigned long addr, size_t size, void **context)
{
	struct vendor_client *client, *found = NULL;

	mutex_lock(&client_mutex);
	list_for_each_entry(client, &client_list, list) {
		if (client->acquire(addr, size, NULL, NULL, context) > 0) {
			found = client;
			break;
		}
	}
	mutex_unlock(&client_mutex);
	return found;
}

static struct ib_client vendor;

static struct ib_mr *vendor_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
					int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	reg_user_mr_t driver = ib_get_client_data(pd->device, &vendor);
	void *context;

	if (find_client(start, length, &context))
		return ERR_PTR(-EOPNOTSUPP);
	return driver(pd, start, length, iova, access, dmah, udata);
}

static int vendor_add(struct ib_device *dev)
{
	if (!dev->ops.reg_user_mr)
		return -EOPNOTSUPP;
	ib_set_client_data(dev, &vendor, dev->ops.reg_user_mr);
	dev->ops.reg_user_mr = vendor_reg_user_mr;
	return 0;
}

static void vendor_remove(struct ib_device *dev, void *driver)
{
	if (!driver)
		return;
	dev->ops.reg_user_mr = driver;
	synchronize_rcu_tasks();
}

static struct ib_client vendor = {
	.name = "bench_vendor",
	.add = vendor_add,
	.remove = vendor_remove,
};

static void free_clients(void)
{
	struct vendor_client *client, *next;

	list_for_each_entry_safe(client, next, &client_list, list)
		kfree(client);
}

static int __init bench_vendor_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < clients; i++) {
		struct vendor_client *client = kzalloc(sizeof(*client), GFP_KERNEL);

		if (!client) {
			free_clients();
			return -ENOMEM;
		}
		client->acquire = decline;
		list_add_tail(&client->list, &client_list);
	}
	err = ib_register_client(&vendor);
	if (err)
		free_clients();
	return err;
}

static void __exit bench_vendor_exit(void)
{
	ib_unregister_client(&vendor);
	free_clients();
}

module_init(bench_vendor_init);
module_exit(bench_vendor_exit);
MODULE_DESCRIPTION("One mutex, every client asked under it: the dispatch to measure against");
MODULE_LICENSE("GPL");
