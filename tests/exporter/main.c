// SPDX-License-Identifier: GPL-2.0
/*
 * A dma-buf exporter for tests: it moves or revokes its memory on request, and fails on request.
 * peer_test_exporter.h has the interface.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "buffer.h"

static int device_open(struct inode *inode, struct file *file)
{
	struct buffer *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return -ENOMEM;
	kref_init(&b->ref);
	mutex_init(&b->lock);
	INIT_LIST_HEAD(&b->left);
	file->private_data = b;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	buffer_put(file->private_data);
	return 0;
}

/* Copies from one page. The memory may move meanwhile. */
static ssize_t device_read(struct file *file, char __user *to, size_t length, loff_t *offset)
{
	struct buffer *b = file->private_data;
	unsigned int in_page = *offset & ~PAGE_MASK;
	u64 index = *offset >> PAGE_SHIFT;
	struct page *page;
	ssize_t rc = 0;

	if (*offset < 0)
		return -EINVAL;
	length = min(length, PAGE_SIZE - in_page);
	page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	/* Moves and the release wait. */
	mutex_lock(&b->lock);
	if (index < b->n_pages) {
		copy_highpage(page, b->pages[index]);
		rc = length;
	}
	mutex_unlock(&b->lock);
	if (rc && copy_to_user(to, page_address(page) + in_page, length))
		rc = -EFAULT;
	__free_page(page);
	if (rc > 0)
		*offset += rc;
	return rc;
}

static int set(struct buffer *b, void __user *user)
{
	struct peer_test_exporter_set arg;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.option >= PEER_TEST_EXPORTER_OPTIONS)
		return -EINVAL;
	/* The other values are errnos and flags. */
	if (arg.value > (arg.option == PEER_TEST_EXPORTER_FUNCTION ? U16_MAX : MAX_ERRNO))
		return -EINVAL;
	WRITE_ONCE(b->options[arg.option], arg.value);
	return 0;
}

static int create(struct buffer *b, struct peer_test_exporter_create __user *user)
{
	struct peer_test_exporter_create arg;
	int rc = -EEXIST;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (!arg.size || !PAGE_ALIGNED(arg.size) || arg.size > PEER_TEST_EXPORTER_MAX_SIZE ||
	    arg.reserved)
		return -EINVAL;
	mutex_lock(&b->lock);
	if (!b->pages) {
		rc = buffer_take_function(b);
		if (rc)
			goto unlock;
		b->pages = pages_alloc(b, arg.size >> PAGE_SHIFT);
		b->n_pages = b->pages ? arg.size >> PAGE_SHIFT : 0;
		rc = b->pages ? buffer_export(b) : -ENOMEM;
	}
unlock:
	mutex_unlock(&b->lock);
	if (rc < 0)
		return rc;
	/* If this fails the process has the descriptor, and does not know it. */
	return put_user(rc, &user->fd);
}

static int join(struct buffer *b, struct peer_test_exporter_join __user *user)
{
	/* Of two locks at a time. */
	static DEFINE_MUTEX(joins);
	struct peer_test_exporter_join arg;
	int rc = -EEXIST;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	mutex_lock(&joins);
	mutex_lock(&b->lock);
	if (!b->pages) {
		rc = buffer_join(b, &arg);
		if (!rc)
			rc = buffer_export(b);
	}
	mutex_unlock(&b->lock);
	mutex_unlock(&joins);
	return rc < 0 ? rc : put_user(rc, &user->fd);
}

static int state(struct buffer *b, void __user *user)
{
	struct peer_test_exporter_state s = { 0 };

	mutex_lock(&b->lock);
	buffer_count_late(b);
	s.moves = b->moves;
	s.late = b->late;
	if (b->dmabuf) {
		dma_resv_lock(b->dmabuf->resv, NULL);
		s.exists = 1;
		s.attached = b->attached;
		s.mapped = b->mapped;
		s.pinned = b->pinned;
		dma_resv_unlock(b->dmabuf->resv);
	}
	mutex_unlock(&b->lock);
	return copy_to_user(user, &s, sizeof(s)) ? -EFAULT : 0;
}

static long device_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct buffer *b = file->private_data;
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case PEER_TEST_EXPORTER_SET: return set(b, user);
	case PEER_TEST_EXPORTER_CREATE: return create(b, user);
	case PEER_TEST_EXPORTER_MOVE: return buffer_move(b);
	case PEER_TEST_EXPORTER_REVOKE: return buffer_revoke(b);
	case PEER_TEST_EXPORTER_STATE: return state(b, user);
	case PEER_TEST_EXPORTER_JOIN: return join(b, user);
	default: return -ENOTTY;
	}
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = device_read,
	.unlocked_ioctl = device_ioctl,
};

struct buffer *buffer_of(int fd)
{
	struct file *file = fget(fd);
	struct buffer *b = ERR_PTR(-EBADF);

	if (file && file->f_op == &fops) {
		b = file->private_data;
		buffer_get(b);
	}
	if (file)
		fput(file);
	return b;
}

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peer_mem_test_exporter",
	.fops = &fops,
	.mode = 0600,
};
module_misc_device(device);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A dma-buf exporter for tests, that moves and revokes its memory");
MODULE_AUTHOR("The ib_peer_mem authors");
MODULE_IMPORT_NS("DMA_BUF");
