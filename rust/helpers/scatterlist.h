/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/scatterlist.h>

static inline void ext_sg_set_phys(struct scatterlist *sg, phys_addr_t phys, unsigned int len)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), len, offset_in_page(phys));
}

/* Of an entry without a page. */
static inline void ext_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	sg->length = len;
}

/*
 * Of an entry with pages, not on x86: returns whether the CPU may copy the bytes by memcpy(), at any
 * alignment. The kernel maps the pages of a PCI BAR uncached (pgprot_noncached() in memremap_pages()). On
 * x86 an uncached mapping permits unaligned accesses. On other architectures it may be a mapping of device
 * registers, in which an unaligned access faults: Device-nGnRnE on arm64.
 */
static inline bool ext_sg_is_copyable(struct scatterlist *sg)
{
	unsigned long pfn = PHYS_PFN(sg_phys(sg)), end = PHYS_PFN(sg_phys(sg) + sg->length - 1);

	/* A subsection is the unit in which memremap_pages() adds memory. */
	for (; pfn <= end; pfn = ALIGN(pfn + 1, PAGES_PER_SUBSECTION))
		if (is_pci_p2pdma_page(pfn_to_page(pfn)))
			return false;
	return true;
}
