// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Which memory is there, and its names. What joins in the address space has one name, which is the
 * name of one dma-buf: an MR may begin and end anywhere in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "gpu.h"

/* Held while names change, and while the driver exports: the order of changes is that of the names. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Both are sorted and protected by the lock. Each span is in one name, or in none. */
static struct spans memory, names;
/* memory.n, for readers without the lock. */
static size_t any_memory;
bool memory_any_unnamed;

static void say(const char *what, uint64_t start, uint64_t end, int error)
{
	if (getenv("IOPM_GPU_DEBUG"))
		dprintf(2, "iopm-gpu: %#llx-%#llx: %s: %s\n", (unsigned long long)start, (unsigned long long)end,
			what, error ? strerror(error) : "ok");
}

/* No thread is cancelled with the lock, and errno is the program's. */
static struct dma_buf take_lock(void)
{
	struct dma_buf none = { .fd = -1, .error = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &none.cancel);
	pthread_mutex_lock(&lock);
	return none;
}

/* Ends what was with the lock. */
void memory_exported(struct dma_buf *dma_buf)
{
	if (dma_buf->fd >= 0)
		close(dma_buf->fd);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(dma_buf->cancel, NULL);
	errno = dma_buf->error;
}

/* --- lists --- */

/* The first that ends after @at. */
static size_t first_after(const struct spans *s, uint64_t at)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->at[middle].end > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool room_for_one(struct spans *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	struct span *at;

	if (s->n < s->room)
		return true;
	at = realloc(s->at, room * sizeof(*at));
	if (!at)
		return false;
	s->at = at;
	s->room = room;
	return true;
}

static void insert(struct spans *s, size_t i, struct span span)
{
	memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof(span));
	s->at[i] = span;
	s->n++;
}

static void erase(struct spans *s, size_t from, size_t to)
{
	memmove(&s->at[from], &s->at[to], (s->n - to) * sizeof(struct span));
	s->n -= to - from;
}

/* --- names in the kernel --- */

/* Returns an errno. */
static int call(unsigned long request, uint32_t flags, const struct span *span, int fd, uint64_t offset)
{
	struct ib_peer_mem_name arg = {
		.version = IB_PEER_MEM_NAME_VERSION,
		.flags = flags,
		.addr = span->start,
		.length = span->end - span->start,
		.offset = offset,
		.fd = fd,
	};
	int control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC), error;

	if (control < 0)
		return errno;
	do
		error = ioctl(control, request, &arg) ? errno : 0;
	while (error == EINTR);
	close(control);
	return error;
}

static void unname(uint64_t start, uint64_t end)
{
	struct span span = { .start = start, .end = end };

	/* ENOENT: a name that a replacement has removed, or that of the parent of this process. */
	say("unnamed", start, end, call(IB_PEER_MEM_IOC_UNNAME, 0, &span, -1, 0));
}

/* Names the span in place of all names in it. */
static bool try_name(struct span span)
{
	uint64_t offset = 0;
	int fd, error;
	size_t from, to;

	/* Without the kernel's part the memory is exported when it is registered (verbs.c). */
	if (access("/dev/ib_peer_mem", F_OK) || !room_for_one(&names))
		return false;
	fd = span.export(span.start, span.end - span.start, &offset);
	error = fd < 0 ? EOPNOTSUPP : call(IB_PEER_MEM_IOC_NAME, IB_PEER_MEM_NAME_REPLACE, &span, fd, offset);
	if (fd >= 0)
		close(fd);
	say(fd < 0 ? "no dma-buf" : "named", span.start, span.end, error);
	if (error)
		return false;
	from = first_after(&names, span.start);
	for (to = from; to < names.n && names.at[to].start < span.end; )
		to++;
	erase(&names, from, to);
	insert(&names, from, span);
	return true;
}

static bool name(struct span span)
{
	bool named = try_name(span);

	if (!named)
		__atomic_store_n(&memory_any_unnamed, true, __ATOMIC_RELAXED);
	return named;
}

/* The span and its neighbours as one, as far as the exporter makes one dma-buf of them. */
static void name_joined(struct span span)
{
	size_t i = first_after(&names, span.start);
	const struct span *left = NULL, *right = NULL;
	uint64_t start = span.start, end = span.end;

	if (span.joins && i && names.at[i - 1].joins && names.at[i - 1].end == start)
		left = &names.at[i - 1];
	for (; i < names.n && names.at[i].start < end + span.joins; i++) {
		if (names.at[i].start <= start && end <= names.at[i].end)
			return;
		if (names.at[i].joins != span.joins)
			continue;
		if (names.at[i].start < start)
			left = &names.at[i];
		else
			right = &names.at[i];
	}
	if (left)
		start = left->start;
	if (right && right->end > end)
		end = right->end;

	struct span both = span, first = span, last = span;

	both.start = first.start = start;
	both.end = last.end = end;
	if (name(both) || !span.joins || (!left && !right))
		return;
	/* Of two devices, for example. */
	if (!left || !right || (!name(first) && !name(last)))
		name(span);
}

/* Some memory of a name is gone: what is left gets names of its own, before the old one ends. */
static void name_rest(struct span old)
{
	size_t i = first_after(&memory, old.start);
	uint64_t at = old.start;

	while (i < memory.n && memory.at[i].start < old.end) {
		struct span piece = memory.at[i++];

		/* What follows the old name has a name, or can have none with it. */
		while (i < memory.n && memory.at[i].start < old.end && memory.at[i].start < piece.end + piece.joins) {
			if (memory.at[i].end > piece.end)
				piece.end = memory.at[i].end;
			i++;
		}
		if (piece.start == old.start && piece.end == old.end)
			return;
		name(piece);
	}
	/* "name" has removed the old name from the list only where it has set new ones. */
	for (i = first_after(&names, old.start); i < names.n && names.at[i].start < old.end; i++) {
		if (names.at[i].start == old.start && names.at[i].end == old.end) {
			erase(&names, i, i + 1);
			break;
		}
		if (at < names.at[i].start)
			unname(at, names.at[i].start);
		at = names.at[i].end;
	}
	if (at < old.end)
		unname(at, old.end);
}

/* --- memory that comes and goes --- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* The child has neither the memory nor the names. */
static void in_child(void)
{
	memory.n = names.n = 0;
	__atomic_store_n(&any_memory, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
}

static bool is(const struct span *s, const struct which *which)
{
	return s->at < which->end && s->at + s->size > which->start &&
	       (!which->context || s->context == which->context) &&
	       (which->device < 0 || s->device == which->device);
}

/* Called with the lock. */
static struct spans take(struct which which)
{
	struct spans taken = { 0 };
	uint64_t start = UINT64_MAX, end = 0;
	size_t i = first_after(&memory, which.start), to = i;

	while (i < memory.n && memory.at[i].start < which.end) {
		struct span *s = &memory.at[i++];

		if (!is(s, &which)) {
			memory.at[to++] = *s;
			continue;
		}
		start = s->start < start ? s->start : start;
		end = s->end > end ? s->end : end;
		if (room_for_one(&taken))
			insert(&taken, taken.n, *s);
	}
	erase(&memory, to, i);
	__atomic_store_n(&any_memory, memory.n, __ATOMIC_RELAXED);
	/* A change of names moves them, so they are looked up by address. */
	while (start < end) {
		struct span old;

		i = first_after(&names, start);
		if (i == names.n || names.at[i].start >= end)
			break;
		old = names.at[i];
		name_rest(old);
		start = old.end;
	}
	return taken;
}

struct spans memory_take(struct which which)
{
	struct spans taken = { 0 };

	if (__atomic_load_n(&any_memory, __ATOMIC_RELAXED)) {
		struct dma_buf none = take_lock();

		taken = take(which);
		memory_exported(&none);
	}
	return taken;
}

static struct which of(const struct span *s)
{
	return (struct which) { .start = s->at, .end = s->at + s->size, .device = -1 };
}

static bool is_there(const struct span *s)
{
	uint64_t offset;
	int fd = s->export(s->start, s->end - s->start, &offset);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Called with the lock. */
static void add(struct span span)
{
	static bool watches_forks;

	if (!watches_forks)
		watches_forks = !pthread_atfork(before_fork, after_fork, in_child);
	/* What was there was freed by a function that is not known here. */
	free(take(of(&span)).at);
	if (room_for_one(&memory)) {
		size_t i = first_after(&memory, span.start);

		while (i < memory.n && memory.at[i].at < span.at)
			i++;
		insert(&memory, i, span);
		__atomic_store_n(&any_memory, memory.n, __ATOMIC_RELAXED);
		name_joined(span);
	}
}

void memory_add(struct span span)
{
	struct dma_buf none;

	if (!span.size || span.end <= span.start)
		return;
	none = take_lock();
	add(span);
	memory_exported(&none);
}

/* Whether other memory has been allocated there. */
static bool is_newer_there(const struct span *s)
{
	const struct which there = of(s);

	for (size_t i = first_after(&memory, s->start); i < memory.n && memory.at[i].start < s->end; i++)
		if (is(&memory.at[i], &there))
			return true;
	return false;
}

void memory_freed(struct spans *taken, bool freed)
{
	if (!freed && taken->n) {
		struct dma_buf none = take_lock();

		for (const struct span *s = taken->at; s < taken->at + taken->n; s++)
			if (!is_newer_there(s) && is_there(s))
				add(*s);
		memory_exported(&none);
	}
	free(taken->at);
}

void memory_check(struct which which)
{
	struct dma_buf none;
	size_t i = 0;

	if (!__atomic_load_n(&any_memory, __ATOMIC_RELAXED))
		return;
	none = take_lock();
	while (i < memory.n) {
		struct span s = memory.at[i];

		if (is(&s, &which) && !is_there(&s))
			free(take(of(&s)).at);
		else
			i++;
	}
	memory_exported(&none);
}

bool memory_export(uint64_t at, size_t length, struct dma_buf *dma_buf)
{
	const uint64_t page = sysconf(_SC_PAGESIZE), start = at / page * page;
	uint64_t end = at;
	size_t i, last, named;

	if (!length || at + length < at)
		return false;
	*dma_buf = take_lock();
	i = first_after(&memory, at);
	for (last = i; end < at + length && last < memory.n && memory.at[last].start <= end; last++)
		end = memory.at[last].end > end ? memory.at[last].end : end;
	named = first_after(&names, at);
	if (end >= at + length && (named == names.n || names.at[named].start > at))
		dma_buf->fd = memory.at[i].export(start, in_whole(at + length, page) - start, &dma_buf->offset);
	if (dma_buf->fd < 0) {
		memory_exported(dma_buf);
		return false;
	}
	dma_buf->offset += at - start;
	return true;
}
