// SPDX-License-Identifier: GPL-2.0
/*
 * Dma-bufs of the test exporter and their mappings: changes them at random, and knows what is where.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_field.h"

char *field_page(const struct field *f, size_t page)
{
	return f->base + page * PAGE;
}

/* A call whose result is known, unless memory is missing for it. */
void field_must(struct thread *t, enum op op, int error, int want)
{
	called(t, op, error, ONE_OF(want));
	if (!error && want)
		bug(t, "succeeded, instead of %s", strerrorname_np(want));
}

void field_map(struct thread *t)
{
	struct field *f = calloc(1, sizeof(*f));

	if (!f)
		bug(t, "no memory for a field");
	f->base = (char *)FIELDS_START + ((uint64_t)t->number << 32);
	for (struct buffer *b = f->buffers; b < f->buffers + BUFFERS; b++) {
		pthread_mutex_init(&b->lock, NULL);
		b->exported = (struct exported) { .dmabuf = -1, .control = -1 };
	}
	t->field = f;
	parts_begin(t);
}

/* --- the mappings --- */

static void unmap(struct thread *t, size_t first, size_t pages)
{
	struct field *f = t->field;

	field_must(t, OP_FIELD, munmap(field_page(f, first), pages * PAGE) ? errno : 0, 0);
	memset(&f->places[first], 0, pages * sizeof(f->places[0]));
}

/* A child does not get the mapping: a fork would write-protect the pages of its parent. */
static void mapped(struct thread *t, size_t first, size_t pages, struct place p)
{
	struct field *f = t->field;

	if (madvise(field_page(f, first), pages * PAGE, MADV_DONTFORK))
		bug(t, "MADV_DONTFORK: %s", strerrorname_np(errno));
	for (size_t i = 0; i < pages; i++) {
		f->places[first + i] = p;
		p.offset++;
	}
}

static void map_host(struct thread *t, size_t first, size_t pages)
{
	struct place p = { .kind = HOST, .prot = PROT_READ | (one_in(t, 3) ? 0 : PROT_WRITE) };
	char *at = field_page(t->field, first);
	void *got = mmap(at, pages * PAGE, p.prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	field_must(t, OP_FIELD, got == MAP_FAILED ? errno : 0, 0);
	mapped(t, first, pages, p);
	for (size_t i = 0; i < pages; i++)
		if (!touch(at + i * PAGE, p.prot & PROT_WRITE))
			bug(t, "no memory at %p", at);
}

static void map_buffer(struct thread *t, size_t first, size_t pages)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_WRITE };
	struct field *f = t->field;
	struct buffer *b = &f->buffers[below(t, BUFFERS)];
	struct place p = {
		.kind = MAPPED,
		.prot = one_in(t, 4) ? prots[below(t, 3)] : PROT_READ | PROT_WRITE,
		.buffer = b,
		.offset = one_in(t, 2) ? 0 : below(t, BUFFER_PAGES),
	};
	int flags = one_in(t, 16) ? MAP_PRIVATE : MAP_SHARED, want = 0;
	void *got;

	/* As much as fits. */
	if (p.offset < b->pages && one_in(t, 2))
		pages = b->pages - p.offset;
	if (pages > FIELD_PAGES - first)
		pages = FIELD_PAGES - first;
	if (b->exported.dmabuf < 0)
		want = EBADF;
	else if (flags == MAP_PRIVATE || p.offset + pages > b->pages)
		want = EINVAL;
	/* A call that fails may have removed what was there. */
	got = mmap(want ? NULL : field_page(f, first), pages * PAGE, p.prot,
		   flags | (want ? 0 : MAP_FIXED), b->exported.dmabuf, p.offset * PAGE);
	field_must(t, OP_FIELD, got == MAP_FAILED ? errno : 0, want);
	if (want)
		return;
	mapped(t, first, pages, p);
	/* Its page tables may be filled or not. */
	if (one_in(t, 2) && p.prot & PROT_READ)
		touch(got, false);
}

static void protect(struct thread *t, size_t page)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_WRITE };
	struct field *f = t->field;
	struct place *p = &f->places[page];
	int prot = prots[below(t, p->kind == HOST ? 3 : 4)], want = p->kind == FREE ? ENOMEM : 0;

	field_must(t, OP_FIELD, mprotect(field_page(f, page), PAGE, prot) ? errno : 0, want);
	if (want)
		return;
	p->prot = prot;
	if (p->kind == HOST && prot & PROT_WRITE && !touch(field_page(f, page), true))
		bug(t, "no memory at %p", field_page(f, page));
}

/* --- the dma-bufs --- */

/* Nothing of this program needs it, so it must end, if no child has its descriptor any more. */
static void must_end(struct thread *t, const struct buffer *b)
{
	struct peer_test_exporter_state s = { 0 };

	for (int i = 0; i < 30000; i++) {
		if (exporter_state(b->exported.control, &s))
			bug(t, "the exporter: %s", strerrorname_np(errno));
		if (!s.exists)
			return;
		usleep(1000);
	}
	bug(t, "a dma-buf that nothing uses exists, with %u importers", s.attached);
}

static void check_late(struct thread *t, const struct buffer *b)
{
	struct peer_test_exporter_state s;

	if (exporter_state(b->exported.control, &s))
		bug(t, "the exporter: %s", strerrorname_np(errno));
	if (s.late)
		bug(t, "%llu bytes were written to memory that was moved",
		    (unsigned long long)s.late);
}

static void close_descriptor(struct buffer *b)
{
	pthread_mutex_lock(&b->lock);
	if (b->exported.dmabuf >= 0)
		close(b->exported.dmabuf);
	b->exported.dmabuf = -1;
	pthread_mutex_unlock(&b->lock);
}

/* Ends all mappings and names of the dma-buf, in one order or the other, and then it. */
static void end(struct thread *t, struct buffer *b)
{
	struct field *f = t->field;

	if (b->exported.control < 0)
		return;
	if (one_in(t, 2))
		close_descriptor(b);
	if (one_in(t, 4))
		parts_forget(t, b);
	for (size_t i = 0; i < FIELD_PAGES; i++)
		if (f->places[i].kind == MAPPED && f->places[i].buffer == b)
			unmap(t, i, 1);
	f->changes++;
	if (one_in(t, 2))
		parts_end(t, b);
	labels_end(t, b);
	parts_end(t, b);
	close_descriptor(b);
	check_late(t, b);
	if (!b->left)
		must_end(t, b);
	pthread_mutex_lock(&b->lock);
	close(b->exported.control);
	b->exported.control = -1;
	pthread_mutex_unlock(&b->lock);
}

static void make(struct thread *t, struct buffer *b)
{
	struct exported made;
	int error;

	end(t, b);
	b->pages = 1 + below(t, BUFFER_PAGES);
	b->pinned_not = one_in(t, 8);
	b->left = false;
	error = exporter_make(&made, b->pinned_not ? "test:pin-error=95" : "test", b->pages * PAGE) ?
		errno : 0;
	called(t, OP_BUFFER, error, ONE_OF(ENOMEM));
	if (error && made.control >= 0)
		close(made.control);
	if (error)
		return;
	pthread_mutex_lock(&b->lock);
	__atomic_store_n(&b->revoked, false, __ATOMIC_SEQ_CST);
	b->exported = made;
	pthread_mutex_unlock(&b->lock);
}

/* Moves or revokes a dma-buf of any thread. */
static void disturb(struct thread *t)
{
	struct field *f = any_thread(t)->field;
	struct buffer *b = &f->buffers[below(t, BUFFERS)];
	bool revoke = one_in(t, 8);
	int error;

	pthread_mutex_lock(&b->lock);
	if (b->exported.control < 0) {
		pthread_mutex_unlock(&b->lock);
		return;
	}
	if (revoke)
		__atomic_store_n(&b->revoked, true, __ATOMIC_SEQ_CST);
	error = (revoke ? exporter_revoke(b->exported.control)
			: exporter_move(b->exported.control)) ? errno : 0;
	pthread_mutex_unlock(&b->lock);
	called(t, OP_BUFFER, error, ONE_OF(EBUSY, ENODEV, ENOMEM));
}

static void change_buffer(struct thread *t)
{
	struct buffer *b = &t->field->buffers[below(t, BUFFERS)];
	bool revoked = __atomic_load_n(&b->revoked, __ATOMIC_SEQ_CST);

	if (b->exported.control < 0 || (revoked && one_in(t, 2)))
		make(t, b);
	else if (one_in(t, 8))
		close_descriptor(b);
	else if (one_in(t, 6))
		make(t, b);
	else
		disturb(t);
}

void field_unmap(struct thread *t)
{
	struct field *f = t->field;

	for (struct buffer *b = f->buffers; b < f->buffers + BUFFERS; b++)
		end(t, b);
	parts_end(t, NULL);
	unmap(t, 0, FIELD_PAGES);
}

void fuzz_field(struct thread *t, enum op op)
{
	size_t first = below(t, FIELD_PAGES), most = FIELD_PAGES - first;
	size_t pages = 1 + below(t, most < BUFFER_PAGES ? most : BUFFER_PAGES);

	switch (op) {
	case OP_BUFFER:
		change_buffer(t);
		break;
	case OP_FIELD:
		switch (below(t, 10)) {
		case 0: unmap(t, first, pages); break;
		case 1 ... 2: map_host(t, first, pages); break;
		case 3: protect(t, first); break;
		default: map_buffer(t, first, pages);
		}
		t->field->changes++;
		break;
	case OP_LABEL:
		fuzz_label(t, first, pages);
		break;
	default:
		fuzz_part(t, op);
	}
}
