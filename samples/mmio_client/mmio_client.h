/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef MMIO_CLIENT_H
#define MMIO_CLIENT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/wait.h>

#include <rdma/ib_peer_mem.h>

/* A PCI function, and its BAR that is memory. */
struct mmio_device {
	struct kref ref;		/* of the driver, each open file, and each region */
	struct pci_dev *pdev;
	phys_addr_t start;
	size_t size;
	struct miscdevice misc;
	char name[32];
	struct file *space;		/* anonymous; all mappings are in its address space */

	/*
	 * get_pages, put_pages and page faults take it, the latter under mmap_lock; it is not held
	 * while a region is invalidated.
	 */
	struct mutex lock;
	bool gone;			/* get_pages and page faults fail */
	struct list_head pinned;	/* regions between get_pages and an invalidation */
	unsigned int in_use;		/* regions between get_pages and put_pages */
	wait_queue_head_t idle;
};

/* --- driver.c --- */

void mmio_device_free(struct kref *ref);

/* Returns the device that a mapping is of, or NULL. The caller holds mmap_lock. */
struct mmio_device *mmio_device_of(struct vm_area_struct *vma);

/* --- client.c --- */

int mmio_client_register(void);
void mmio_client_unregister(void);

/* Revokes the MRs on a device that goes. On return no adapter accesses it. */
void mmio_client_remove(struct mmio_device *dev);

/* --- optional.c --- */

/*
 * As ib_register_peer_memory_client(), if ib_peer_mem is there. Returns -ENOENT without it,
 * and -EINVAL if it refuses the client.
 */
int optional_register(const struct peer_memory_client *client,
		      invalidate_peer_memory *invalidate, void **handle);
void optional_unregister(void *handle);

#endif /* MMIO_CLIENT_H */
