// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations of a field by address, on the test adapters and soft RoCE, and transfers by the
 * DMA of the adapters. What must be registered follows from what is in the field.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_field.h"
#include "pattern.h"

/* What is registered, or the errno. */
struct expected {
	int error;
	struct buffer *buffer;	/* NULL: host memory */
	size_t offset;		/* in bytes */
	bool writable;
	bool pinnable;		/* host memory, whatever its name: the driver can pin it */
};

/* The dma-buf that the pages are named as, all of them. */
static struct expected named(const struct field *f, size_t first, size_t last)
{
	const struct label *l = label_at(f, first);
	struct expected e = { .error = EFAULT, .writable = true };

	if (!l)
		return e;
	e.buffer = l->buffer;
	e.offset = (l->offset + first - l->first) * PAGE;
	for (size_t page = first; page <= last; page++) {
		l = label_at(f, page);
		if (!l || l->buffer != e.buffer ||
		    (l->offset + page - l->first) * PAGE != e.offset + (page - first) * PAGE)
			return e;
	}
	e.error = 0;
	return e;
}

/* The dma-buf that is mapped at the pages, all of them. */
static struct expected mapped(const struct field *f, size_t first, size_t last)
{
	const struct place *p = &f->places[first];
	struct expected e = { .error = EFAULT, .writable = true, .buffer = p->buffer,
			      .offset = p->offset * PAGE };

	for (size_t page = first; page <= last; page++) {
		const struct place *now = &f->places[page];

		if (now->kind != MAPPED || now->buffer != p->buffer ||
		    now->offset != p->offset + page - first || !(now->prot & PROT_READ))
			return e;
		e.writable &= !!(now->prot & PROT_WRITE);
	}
	e.error = 0;
	return e;
}

/* As ioctl.rst and architecture.rst have it. @from: the first byte. */
static struct expected expect(const struct field *f, size_t from, size_t length, bool write)
{
	size_t first = from / PAGE, last = (from + length - 1) / PAGE;
	const struct place *p = &f->places[first];
	bool ordinary = p->kind == HOST && p->prot & PROT_WRITE, host = true, any_name = false;
	struct expected e = { .writable = true, .pinnable = true };

	for (size_t page = first; page <= last; page++) {
		int prot = write ? PROT_WRITE : PROT_READ;

		host &= f->places[page].kind == HOST && f->places[page].prot & prot;
		any_name |= !!label_at(f, page);
	}
	/* A name comes first, unless the memory looks ordinary. */
	if (host && (ordinary || !any_name))
		return e;
	e = any_name ? named(f, first, last) : mapped(f, first, last);
	e.pinnable = host;
	e.offset += from % PAGE;
	if (!e.error && write && !e.writable)
		e.error = EACCES;
	return e;
}

/* --- MRs --- */

void parts_begin(struct thread *t)
{
	struct field *f = t->field;

	for (int i = 0; i < n_adapters; i++) {
		f->page[i] = aligned_alloc(PAGE, PAGE);
		if (!f->page[i])
			bug(t, "no memory for transfers");
		memset(f->page[i], 0, PAGE);
		f->page_mr[i] = ibv_reg_mr(adapters[i].rdma.pd, f->page[i], PAGE,
					   IBV_ACCESS_LOCAL_WRITE);
		if (!f->page_mr[i])
			bug(t, "%s: host memory: %s", adapters[i].name, strerrorname_np(errno));
	}
}

void parts_forget(struct thread *t, struct buffer *b)
{
	struct field *f = t->field;

	for (struct part *p = f->parts; p < f->parts + PARTS; p++) {
		if (!p->mr || p->buffer != b)
			continue;
		p->buffer = NULL;
		p->changes = ~0ULL;
		b->left = true;
	}
}

void parts_end(struct thread *t, const struct buffer *b)
{
	struct field *f = t->field;

	for (struct part *p = f->parts; p < f->parts + PARTS; p++)
		if (!b || p->buffer == b)
			dereg(t, &p->mr);
	for (int i = 0; !b && i < n_adapters; i++) {
		dereg(t, &f->page_mr[i]);
		free(f->page[i]);
	}
}

static bool is_revoked(const struct buffer *b)
{
	return b && __atomic_load_n(&b->revoked, __ATOMIC_SEQ_CST);
}

/* A range that can be registered, mostly. Returns where it begins in the field. */
static size_t choose(struct thread *t, size_t *length)
{
	struct field *f = t->field;
	bool any = one_in(t, 4), write = !one_in(t, 4);
	size_t first = below(t, FIELD_PAGES), pages, skip;

	for (int i = 0; i < FIELD_PAGES && !any && expect(f, first * PAGE, 1, write).error; i++)
		first = (first + 1) % FIELD_PAGES;
	pages = 1 + below(t, FIELD_PAGES - first < 8 ? FIELD_PAGES - first : 8);
	while (!any && pages > 1 && expect(f, first * PAGE, pages * PAGE, write).error)
		pages--;
	skip = one_in(t, 2) ? 0 : below(t, PAGE);
	*length = pages * PAGE - skip;
	if (one_in(t, 2))
		*length -= below(t, *length < PAGE ? *length : PAGE);
	return first * PAGE + skip;
}

/*
 * Between the removal of the core from a device and that of ib_uverbs, the driver alone registers
 * (locking.rst, "Removal of a device"): it knows no names, and pins what it can. The umem hook then
 * has the other memory pinned.
 */
static bool driver_alone(const struct expected *e)
{
	return unsteady && (e->error || e->buffer);
}

/* The errnos of a registration that must succeed, or end with @e->error. */
static const int *allowed(const struct expected *e)
{
	static __thread int list[10];
	int n = 0;

	if (e->error)
		list[n++] = e->error;
	if (is_revoked(e->buffer))
		list[n++] = ENODEV;
	/* Of a device that is removed, or has too many objects. */
	if (unsteady) {
		list[n++] = EIO;
		list[n++] = ENODEV;
		list[n++] = EAGAIN;
	}
	if (driver_alone(e)) {
		list[n++] = EFAULT;
		if (e->buffer && e->buffer->pinned_not)
			list[n++] = EOPNOTSUPP;
	}
	list[n] = 0;
	return list;
}

static void reg_part(struct thread *t)
{
	struct field *f = t->field;
	struct part *p = &f->parts[below(t, PARTS)];
	int adapter = (int)below(t, n_adapters + !!pd) - !!pd;
	bool write = !one_in(t, 4), starved = one_in(t, 2);
	size_t length, from = choose(t, &length);
	struct expected e = expect(f, from, length, write);
	bool host;	/* perhaps */
	int error;

	dereg(t, &p->mr);
	/* Soft RoCE imports no dma-bufs; the others pin them, or do not. */
	if (!e.error && e.buffer &&
	    (adapter < 0 ? !pd_imports : adapters[adapter].pins && e.buffer->pinned_not))
		e.error = EOPNOTSUPP;
	/* If the driver lacks memory for ordinary memory, its name counts. */
	starve(t, starved && (e.error || e.buffer));
	p->mr = ibv_reg_mr(adapter < 0 ? pd : adapters[adapter].rdma.pd, f->base + from, length,
			   write ? ACCESS_ALL : IBV_ACCESS_REMOTE_READ);
	error = p->mr ? 0 : errno;
	called(t, OP_REG_PART, error, allowed(&e));
	starve(t, false);
	if (error)
		return;
	host = driver_alone(&e) && e.pinnable;
	if (e.error && !host)
		bug(t, "an MR of %zu bytes at byte %#zx of the field, instead of %s", length, from,
		    strerrorname_np(e.error));
	p->adapter = adapter;
	p->writable = write;
	/* Whether the MR is on its dma-buf or on host memory is not known. */
	p->buffer = host ? NULL : e.buffer;
	p->offset = e.offset;
	p->at = f->base + from;
	p->length = length;
	p->changes = host ? ~0ULL : f->changes;
	if (host && e.buffer)
		e.buffer->left = true;
}

/* --- transfers --- */

/* Has the adapter copy. Returns an errno. */
static int copy(int adapter, const struct ibv_mr *from, const char *at, const struct ibv_mr *to,
		const char *there, size_t n)
{
	char path[96], command[128];
	int fd, error;

	snprintf(path, sizeof(path), "/sys/kernel/debug/peer_mem_test_adapter/%s/dma",
		 adapters[adapter].name);
	snprintf(command, sizeof(command), "copy %u %llu %u %llu %zu", from->lkey,
		 (unsigned long long)(uintptr_t)at, to->lkey,
		 (unsigned long long)(uintptr_t)there, n);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	error = write(fd, command, strlen(command)) < 0 ? errno : 0;
	close(fd);
	return error;
}

/*
 * The bytes of the MR at @skip as the program knows them: those of its dma-buf, or those at its
 * address if that is mapped as it was. Returns false if it does not.
 */
static bool contents(struct thread *t, const struct part *p, size_t skip, char *seen, size_t n)
{
	if (p->buffer && exporter_read(p->buffer->exported.control, seen, n, p->offset + skip))
		bug(t, "the exporter: %s", strerrorname_np(errno));
	return p->buffer ||
	       (p->changes == t->field->changes && copy_guarded(seen, p->at + skip, n));
}

/* If the dma-buf is still mapped there, and has no name there, the CPU has the same bytes. */
static void check_cpu(struct thread *t, const struct part *p, size_t skip, const char *seen, size_t n)
{
	const struct field *f = t->field;
	size_t from = p->at + skip - f->base;
	struct expected now = expect(f, from, n, false);
	char cpu[PAGE];

	if (!p->buffer || now.error || now.buffer != p->buffer || now.offset != p->offset + skip ||
	    label_at(f, from / PAGE))
		return;
	if (copy_guarded(cpu, p->at + skip, n) && memcmp(cpu, seen, n))
		bug(t, "the CPU sees other bytes at %p than the exporter", p->at + skip);
}

static void transfer(struct thread *t)
{
	struct field *f = t->field;
	const struct part *p = &f->parts[below(t, PARTS)];
	char sent[PAGE], seen[PAGE], *page;
	bool write = one_in(t, 2);
	size_t n, skip;
	int error;

	if (!p->mr || p->adapter < 0 || !f->page_mr[p->adapter])
		return;
	page = f->page[p->adapter];
	n = 1 + below(t, p->length < PAGE - 1 ? p->length : PAGE - 1);
	skip = below(t, p->length - n + 1);
	pattern_fill(sent, n, any(t));
	memcpy(page, sent, n);
	error = write ? copy(p->adapter, f->page_mr[p->adapter], page, p->mr, p->at + skip, n)
		      : copy(p->adapter, p->mr, p->at + skip, f->page_mr[p->adapter], page, n);
	/* A dma-buf that is not known any more may be revoked. */
	if (error == EACCES && !(write && !p->writable) && !is_revoked(p->buffer) &&
	    (p->buffer || p->changes != ~0ULL))
		bug(t, "a transfer failed, but its memory is there");
	called(t, OP_DMA, error, unsteady ? ONE_OF(EACCES, EINVAL, ENOENT, ENODEV, EIO) :
				 ONE_OF(EACCES));
	if (error)
		return;
	if (write && !p->writable)
		bug(t, "a transfer to an MR that is for reading");
	if (!contents(t, p, skip, seen, n))
		return;
	if (memcmp(seen, page, n))
		bug(t, "%zu bytes %s the MR at %p and byte %#zx of its dma-buf are others", n,
		    write ? "to" : "from", p->at + skip, p->buffer ? p->offset + skip : 0);
	check_cpu(t, p, skip, seen, n);
}

void fuzz_part(struct thread *t, enum op op)
{
	if (op == OP_REG_PART)
		reg_part(t);
	else
		transfer(t);
}
