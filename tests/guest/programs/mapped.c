// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mapped.h"

#define READ_WRITE (PROT_READ | PROT_WRITE)

static size_t page;

/* Maps @length bytes of the dma-buf from @offset on at @offset2 of the mapping. */
static int map_over(struct mapped *m, int dmabuf, size_t offset2, size_t offset, size_t length)
{
	void *addr = mmap(m->addr + offset2, length, READ_WRITE, MAP_SHARED | MAP_FIXED, dmabuf,
			  offset);

	return addr == MAP_FAILED ? -1 : 0;
}

/*
 * A VMA of such memory is not merged again. Its pages are there before: drivers of DRM with shmem find a
 * page by its distance from the start of the VMA, and not by its offset in the file.
 */
static int split(struct mapped *m)
{
	for (size_t i = 0; i < m->length; i += page)
		*(volatile char *)(m->addr + i);
	for (size_t i = page; i < m->length; i += 2 * page)
		if (mprotect(m->addr + i, page, PROT_NONE) || mprotect(m->addr + i, page, READ_WRITE))
			return -1;
	return 0;
}

static int pieces(struct mapped *m)
{
	for (size_t i = 0; i < m->length; i += page)
		if (map_over(m, m->exported.dmabuf, i, m->start + i, page))
			return -1;
	return 0;
}

static int swapped(struct mapped *m)
{
	size_t half = m->length / 2 & -page;

	return map_over(m, m->exported.dmabuf, 0, m->start + m->length - half, half) ||
		map_over(m, m->exported.dmabuf, m->length - half, m->start, half) ? -1 : 0;
}

static int two(struct mapped *m, const char *what)
{
	size_t half = m->length / 2 & -page;
	struct exported other;

	if (exporter_make(&other, what, m->length))
		return -1;
	return map_over(m, other.dmabuf, m->length - half, m->length - half, half);
}

static int anonymous(struct mapped *m, size_t offset)
{
	void *addr = mmap(m->addr + offset, page, READ_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);

	return addr == MAP_FAILED ? -1 : 0;
}

static int make_shape(struct mapped *m, const char *what, const char *shape)
{
	size_t last = m->length - page;

	if (!strcmp(shape, "split"))
		return split(m);
	if (!strcmp(shape, "pieces"))
		return pieces(m);
	if (!strcmp(shape, "swapped"))
		return swapped(m);
	if (!strcmp(shape, "two"))
		return two(m, what);
	if (!strcmp(shape, "hole"))
		return munmap(m->addr + (m->length / 2 & -page), page);
	if (!strcmp(shape, "tail"))
		return anonymous(m, last);
	if (!strcmp(shape, "head"))
		return anonymous(m, 0);
	if (!strcmp(shape, "guarded"))
		return mprotect(m->addr + last, page, PROT_NONE);
	if (!strcmp(shape, "read-tail"))
		return mprotect(m->addr + last, page, PROT_READ);
	errno = EINVAL;
	return -1;
}

int mapped_make(struct mapped *m, const char *what, size_t length, const char *shape)
{
	bool part = !strcmp(shape, "part"), read_only = !strcmp(shape, "read-only");
	bool is_private = !strcmp(shape, "private");

	page = sysconf(_SC_PAGESIZE);
	*m = (struct mapped) { .length = length, .start = part ? 3 * page : 0 };
	if (exporter_make(&m->exported, what, length + (part ? 5 * page : 0)))
		return -1;
	if (!strcmp(shape, "none") || !strcmp(shape, "reserved")) {
		m->addr = mmap(NULL, length, *shape == 'n' ? PROT_NONE : READ_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return m->addr == MAP_FAILED ? -1 : 0;
	}
	m->addr = mmap(NULL, length, PROT_READ | (read_only ? 0 : PROT_WRITE),
		       is_private ? MAP_PRIVATE : MAP_SHARED, m->exported.dmabuf, m->start);
	if (m->addr == MAP_FAILED)
		return -1;
	if (part || read_only || is_private || !strcmp(shape, "whole"))
		return 0;
	return make_shape(m, what, shape);
}
