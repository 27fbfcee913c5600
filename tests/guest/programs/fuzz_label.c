// SPDX-License-Identifier: GPL-2.0
/*
 * The names of a field: changes them at random, and knows them.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "fuzz_field.h"

const struct label *label_at(const struct field *f, size_t page)
{
	for (const struct label *l = f->labels; l < f->labels + FIELD_PAGES; l++)
		if (l->references && l->first <= page && page < l->first + l->pages)
			return l;
	return NULL;
}

/* The first name in these pages. */
static struct label *first_label(struct field *f, size_t first, size_t pages)
{
	for (size_t page = first; page < first + pages; page++) {
		const struct label *l = label_at(f, page);

		if (l)
			return &f->labels[l - f->labels];
	}
	return NULL;
}

static struct ib_peer_mem_name argument(const struct field *f, size_t first, size_t pages)
{
	return (struct ib_peer_mem_name) {
		.version = IB_PEER_MEM_NAME_VERSION,
		.addr = (uintptr_t)field_page(f, first),
		.length = pages * PAGE,
	};
}

static int call(unsigned long cmd, struct ib_peer_mem_name *name)
{
	return ioctl(export_device, cmd, name) ? errno : 0;
}

/* There are as many labels as pages. */
static void add_label(struct field *f, struct label label)
{
	struct label *l = f->labels;

	while (l->references)
		l++;
	*l = label;
}

/* What a replacement of these pages leaves of a name. */
static void cut(struct field *f, struct label *l, size_t first, size_t end)
{
	struct label before = *l, after = *l;

	l->references = 0;
	if (before.first < first) {
		before.pages = first - before.first;
		add_label(f, before);
	}
	if (after.first + after.pages > end) {
		after.pages -= end - after.first;
		after.offset += end - after.first;
		after.first = end;
		add_label(f, after);
	}
}

static void name(struct thread *t, size_t first, size_t pages)
{
	struct field *f = t->field;
	struct buffer *b = &f->buffers[below(t, BUFFERS)];
	struct label *l = first_label(f, first, pages);
	struct ib_peer_mem_name arg = argument(f, first, pages);
	size_t offset = one_in(t, 2) ? 0 : below(t, BUFFER_PAGES);
	bool same, replace = one_in(t, 3);
	int want = 0, error;

	/* Exactly the name that is there counts once more. */
	if (l && one_in(t, 3)) {
		b = l->buffer;
		offset = l->offset;
		arg = argument(f, l->first, l->pages);
	}
	arg.offset = offset * PAGE;
	arg.fd = b->exported.dmabuf;
	arg.flags = replace ? IB_PEER_MEM_NAME_REPLACE : 0;
	same = l && arg.addr == (uintptr_t)field_page(f, l->first) && arg.length == l->pages * PAGE &&
	       b == l->buffer && offset == l->offset;
	if (arg.fd < 0)
		want = EBADF;
	else if (arg.offset + arg.length > b->pages * PAGE)
		want = EINVAL;
	else if (l && !same && !replace)
		want = EEXIST;
	starve(t, one_in(t, 2));
	error = call(IB_PEER_MEM_IOC_NAME, &arg);
	field_must(t, OP_LABEL, error, want);
	starve(t, false);
	if (error)
		return;
	if (same && !replace) {
		l->references++;
		return;
	}
	first = (arg.addr - (uintptr_t)field_page(f, 0)) / PAGE;
	pages = arg.length / PAGE;
	while ((l = first_label(f, first, pages)))
		cut(f, l, first, first + pages);
	add_label(f, (struct label) { .first = first, .pages = pages, .buffer = b, .offset = offset,
				      .references = 1 });
}

static void unname(struct thread *t, size_t first, size_t pages)
{
	struct field *f = t->field;
	struct ib_peer_mem_name arg = argument(f, first, pages);
	int want = ENOENT, error;

	for (struct label *l = f->labels; l < f->labels + FIELD_PAGES; l++) {
		if (!l->references || l->first + l->pages <= first || first + pages <= l->first)
			continue;
		if (want == ENOENT)
			want = 0;
		if (l->first < first || l->first + l->pages > first + pages)
			want = EINVAL;
	}
	error = call(IB_PEER_MEM_IOC_UNNAME, &arg);
	field_must(t, OP_LABEL, error, want);
	for (struct label *l = f->labels; !error && l < f->labels + FIELD_PAGES; l++)
		if (l->references && l->first >= first && l->first < first + pages)
			l->references--;
}

static void unname_buffer(struct thread *t)
{
	struct field *f = t->field;
	struct buffer *b = &f->buffers[below(t, BUFFERS)];
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION,
		.flags = IB_PEER_MEM_UNNAME_DMABUF,
		.fd = b->exported.dmabuf,
	};
	int want = arg.fd < 0 ? EBADF : ENOENT, error;

	for (struct label *l = f->labels; l < f->labels + FIELD_PAGES; l++)
		if (l->references && l->buffer == b && want == ENOENT)
			want = 0;
	error = call(IB_PEER_MEM_IOC_UNNAME, &arg);
	field_must(t, OP_LABEL, error, want);
	for (struct label *l = f->labels; !error && l < f->labels + FIELD_PAGES; l++)
		if (l->references && l->buffer == b)
			l->references--;
}

static void query(struct thread *t, size_t page)
{
	const struct label *l = label_at(t->field, page);
	struct ib_peer_mem_name arg = argument(t->field, page, 0);

	arg.addr += below(t, PAGE);
	field_must(t, OP_LABEL, call(IB_PEER_MEM_IOC_QUERY, &arg), l ? 0 : ENOENT);
	if (l && (arg.addr != (uintptr_t)field_page(t->field, l->first) ||
		  arg.length != l->pages * PAGE || arg.offset != l->offset * PAGE))
		bug(t, "query: %#llx bytes at %#llx, offset %#llx", arg.length, arg.addr, arg.offset);
}

void labels_end(struct thread *t, const struct buffer *b)
{
	struct field *f = t->field;

	for (struct label *l = f->labels; l < f->labels + FIELD_PAGES; l++)
		while (l->references && l->buffer == b)
			unname(t, l->first, l->pages);
}

void field_child(struct thread *t)
{
	struct field *f = t->field;
	size_t page = 0;

	for (struct buffer *b = f->buffers; b < f->buffers + BUFFERS; b++) {
		struct ib_peer_mem_name arg = argument(f, page, 1);

		arg.fd = b->exported.dmabuf;
		if (arg.fd >= 0 && call(IB_PEER_MEM_IOC_NAME, &arg))
			_exit(2);
		page++;
	}
	execl("/bin/true", "true", NULL);
	_exit(3);
}

void fuzz_label(struct thread *t, size_t first, size_t pages)
{
	switch (below(t, 8)) {
	case 0 ... 1: unname(t, first, pages); break;
	case 2: unname_buffer(t); break;
	case 3 ... 4: query(t, first); break;
	default: name(t, first, pages);
	}
}
