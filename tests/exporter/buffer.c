// SPDX-License-Identifier: GPL-2.0
/*
 * The dma-buf: importers that need not pin it are invalidated when the memory moves.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "../../rust/helpers/compat.h"
#include "buffer.h"

static const struct dma_buf_ops gpu_ops;

static bool is_gpu(struct dma_buf *dmabuf)
{
	return dmabuf->ops == &gpu_ops;
}

static int attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct buffer *b = dmabuf->priv;
	u32 error = READ_ONCE(b->options[PEER_TEST_EXPORTER_ATTACH_ERROR]);

	if (error)
		return -(int)error;
	if ((b->function || is_gpu(dmabuf)) && !attachment->peer2peer)
		return -EOPNOTSUPP;
	dma_resv_lock(dmabuf->resv, NULL);
	b->attached++;
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static void detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct buffer *b = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	b->attached--;
	dma_resv_unlock(dmabuf->resv);
}

static int pin(struct dma_buf_attachment *attachment)
{
	struct buffer *b = attachment->dmabuf->priv;
	u32 error = READ_ONCE(b->options[PEER_TEST_EXPORTER_PIN_ERROR]);

	dma_resv_assert_held(attachment->dmabuf->resv);
	if (error)
		return -(int)error;
	b->pinned++;
	return 0;
}

static void unpin(struct dma_buf_attachment *attachment)
{
	struct buffer *b = attachment->dmabuf->priv;

	dma_resv_assert_held(attachment->dmabuf->resv);
	b->pinned--;
}

/*
 * Each importer maps the same pages, and processes access them meanwhile, as with the umems of ib_core,
 * which have this attribute. Without it the DMA-API debugging takes more than 7 mappings of a page for
 * a leak.
 */
#define MAP_ATTRS DMA_ATTR_REQUIRE_COHERENT

/* The end of a segment: of a run of pages in a unit of 64 KiB. */
static unsigned int segment_end(struct buffer *b, unsigned int first)
{
	unsigned int i = first + 1;

	while (i < b->n_pages && b->pages[i] == b->pages[i - 1] + 1 && page_to_phys(b->pages[i]) % SZ_64K)
		i++;
	return i;
}

static void unmap_segments(struct device *dev, struct sg_table *table, enum dma_data_direction direction)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sgtable_dma_sg(table, sg, i)
		if (sg_dma_len(sg))
			dma_unmap_page_attrs(dev, sg_dma_address(sg), sg_dma_len(sg), direction, MAP_ATTRS);
	sg_free_table(table);
}

/* A table with addresses for the device alone. */
static int map_segments(struct buffer *b, struct device *dev, struct sg_table *table,
			enum dma_data_direction direction)
{
	unsigned int i, n = 0;
	struct scatterlist *sg;
	int rc;

	for (i = 0; i < b->n_pages; i = segment_end(b, i))
		n++;
	rc = sg_alloc_table(table, n, GFP_KERNEL);
	if (rc)
		return rc;
	sg = table->sgl;
	for (i = 0; i < b->n_pages; sg = sg_next(sg)) {
		unsigned int end = segment_end(b, i);
		size_t length = (size_t)(end - i) << PAGE_SHIFT;
		dma_addr_t at = dma_map_page_attrs(dev, b->pages[i], 0, length, direction, MAP_ATTRS);

		if (dma_mapping_error(dev, at)) {
			unmap_segments(dev, table, direction);
			return -EIO;
		}
		sg_set_page(sg, NULL, length, 0);
		sg_dma_address(sg) = at;
		sg_dma_len(sg) = length;
		i = end;
	}
	return 0;
}

static int map_pages(struct buffer *b, struct device *dev, struct sg_table *table,
		     enum dma_data_direction direction)
{
	int rc = sg_alloc_table_from_pages(table, b->pages, b->n_pages, 0,
					   (size_t)b->n_pages << PAGE_SHIFT, GFP_KERNEL);

	if (rc)
		return rc;
	rc = ext_dma_map_sgtable(dev, table, direction, MAP_ATTRS);
	if (rc)
		sg_free_table(table);
	return rc;
}

static struct sg_table *map(struct dma_buf_attachment *attachment, enum dma_data_direction direction)
{
	struct buffer *b = attachment->dmabuf->priv;
	u32 error = READ_ONCE(b->options[PEER_TEST_EXPORTER_MAP_ERROR]);
	struct sg_table *table;
	int rc;

	dma_resv_assert_held(attachment->dmabuf->resv);
	if (b->revoked)
		return ERR_PTR(-ENODEV);
	if (error)
		return ERR_PTR(-(int)error);
	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return ERR_PTR(-ENOMEM);
	if (is_gpu(attachment->dmabuf))
		rc = map_segments(b, attachment->dev, table, direction);
	else
		rc = map_pages(b, attachment->dev, table, direction);
	if (rc) {
		kfree(table);
		return ERR_PTR(rc);
	}
	b->mapped++;
	return table;
}

static void unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
		  enum dma_data_direction direction)
{
	struct buffer *b = attachment->dmabuf->priv;

	dma_resv_assert_held(attachment->dmabuf->resv);
	if (is_gpu(attachment->dmabuf)) {
		unmap_segments(attachment->dev, table, direction);
	} else {
		dma_unmap_sgtable(attachment->dev, table, direction, MAP_ATTRS);
		sg_free_table(table);
	}
	kfree(table);
	b->mapped--;
}

static vm_fault_t fault(struct vm_fault *vmf)
{
	struct dma_buf *dmabuf = vmf->vma->vm_private_data;
	struct buffer *b = dmabuf->priv;
	vm_fault_t rc = VM_FAULT_SIGBUS;

	dma_resv_lock(dmabuf->resv, NULL);
	if (!b->revoked && vmf->pgoff < b->n_pages)
		rc = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(b->pages[vmf->pgoff]));
	dma_resv_unlock(dmabuf->resv);
	return rc;
}

static const struct vm_operations_struct vm_ops = {
	.fault = fault,
};

static int map_for_process(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct buffer *b = dmabuf->priv;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* On other architectures than x86 programs could not copy at any offset. */
	if (b->function)
		vma->vm_page_prot = IS_ENABLED(CONFIG_X86) ?
					    pgprot_noncached(vma->vm_page_prot) :
					    pgprot_writecombine(vma->vm_page_prot);
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	/* The file of the VMA holds it. */
	vma->vm_private_data = dmabuf;
	vma->vm_ops = &vm_ops;
	return 0;
}

static void release(struct dma_buf *dmabuf)
{
	struct buffer *b = dmabuf->priv;

	mutex_lock(&b->lock);
	b->dmabuf = NULL;
	mutex_unlock(&b->lock);
	buffer_put(b);
}

static const struct dma_buf_ops ops = {
	.attach = attach,
	.detach = detach,
	.pin = pin,
	.unpin = unpin,
	.map_dma_buf = map,
	.unmap_dma_buf = unmap,
	.mmap = map_for_process,
	.release = release,
};

static int map_for_no_process(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	return -ENOTSUPP;
}

static const struct dma_buf_ops gpu_ops = {
	.attach = attach,
	.detach = detach,
	.map_dma_buf = map,
	.unmap_dma_buf = unmap,
	.mmap = map_for_no_process,
	.release = release,
};

int buffer_export(struct buffer *b)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	int fd;

	lockdep_assert_held(&b->lock);
	info.exp_name = "peer_mem_test_exporter";
	info.ops = b->options[PEER_TEST_EXPORTER_GPU] ? &gpu_ops : &ops;
	info.size = (size_t)b->n_pages << PAGE_SHIFT;
	info.flags = O_RDWR;
	info.priv = b;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	buffer_get(b);
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0) {
		mutex_unlock(&b->lock);
		dma_buf_put(dmabuf);
		mutex_lock(&b->lock);
		return fd;
	}
	b->dmabuf = dmabuf;
	return fd;
}

/* Has importers and processes lose the memory. Called with the reservation lock. */
static int invalidate(struct buffer *b)
{
	dma_buf_invalidate_mappings(b->dmabuf);
	if (b->mapped)
		return -EBUSY;
	/* The inode of a file that ends is freed before release(). No process has it mapped then. */
	if (file_ref_get(&b->dmabuf->file->f_ref)) {
		unmap_mapping_range(b->dmabuf->file->f_mapping, 0, 0, 1);
		fput(b->dmabuf->file);
	}
	return 0;
}

int buffer_move(struct buffer *b)
{
	struct page **pages;
	unsigned int i;
	int rc = -ENODEV;

	mutex_lock(&b->lock);
	if (b->parts || b->joined) {
		mutex_unlock(&b->lock);
		return -EBUSY;
	}
	pages = pages_alloc(b, b->n_pages);
	if (!b->dmabuf || !pages) {
		rc = b->dmabuf ? -ENOMEM : rc;
		goto unlock;
	}
	dma_resv_lock(b->dmabuf->resv, NULL);
	if (b->revoked)
		goto unlock_resv;
	rc = b->pinned ? -EBUSY : invalidate(b);
	if (rc)
		goto unlock_resv;
	for (i = 0; i < b->n_pages; i++)
		copy_highpage(pages[i], b->pages[i]);
	/* Before an importer can map the new pages: a write of the old ones is late from here on. */
	rc = buffer_leave(b, b->pages);
	if (rc)
		goto unlock_resv;
	b->pages = pages;
	b->moves++;
	pages = NULL;
unlock_resv:
	dma_resv_unlock(b->dmabuf->resv);
unlock:
	mutex_unlock(&b->lock);
	pages_free(b, pages, b->n_pages);
	return rc;
}

int buffer_revoke(struct buffer *b)
{
	int rc = -ENODEV;

	mutex_lock(&b->lock);
	if (b->parts || b->joined) {
		rc = -EBUSY;
	} else if (b->dmabuf) {
		dma_resv_lock(b->dmabuf->resv, NULL);
		/* Importers must not map again during the invalidation. */
		b->revoked = true;
		rc = invalidate(b);
		dma_resv_unlock(b->dmabuf->resv);
	}
	mutex_unlock(&b->lock);
	return rc;
}
