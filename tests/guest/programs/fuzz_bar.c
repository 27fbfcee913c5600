// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls of a BAR's device and of allocations. What is valid, and what the kernel must
 * answer, is computed here independently of it, from ioctl.rst.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuzz_ioctl.h"

int ask_range(int fd, const void *addr, uint64_t *offset, uint64_t *length)
{
	struct io_peer_mem_range r = { .addr = (uintptr_t)addr };

	if (ioctl(fd, IO_PEER_MEM_IOC_RANGE, &r))
		return errno;
	*offset = r.bar_offset;
	*length = r.length;
	return 0;
}

int ask_capacity(int fd, uint64_t *total, uint64_t *free)
{
	struct io_peer_mem_dm_capacity c = { .version = IO_PEER_MEM_DM_VERSION };

	if (ioctl(fd, IO_PEER_MEM_IOC_DM_CAPACITY, &c))
		return errno;
	*total = c.total;
	*free = c.free;
	return 0;
}

static uint64_t some_length(struct thread *t, uint64_t most)
{
	switch (below(t, 48)) {
	case 0 ... 3: return edge(t);
	case 4: return most - 1 + below(t, 3);
	case 5: return most / 2 - 1 + below(t, 3);
	default: return 1 + below(t, 16 * PAGE);
	}
}

void bar_make(struct thread *t, enum op op, const struct file *f, union arg *a)
{
	const struct held *h = one_in(t, 4) ? NULL : pick_held(t);
	const struct bar *bar = &bars[below(t, BARS)];

	switch (op) {
	case OP_RANGE:
		for (int i = 0; i < 4 && h && f && (h->bar != f->bar || h->node != f->node); i++)
			h = pick_held(t);
		a->range.addr = h ? (uintptr_t)h->addr + below(t, h->length) :
				one_in(t, 3) ? edge(t) : (uintptr_t)arena_any(t);
		break;
	case OP_NEAREST:
		a->nearest.domain = bar->domain;
		a->nearest.address = one_in(t, 2) ? below(t, 0x100) : bar->address;
		break;
	case OP_ALLOC:
		a->alloc.length = some_length(t, bar->size);
		a->alloc.log_align = one_in(t, 6) ? below(t, 70) : below(t, 16);
		a->alloc.fd = below(t, 20);
		break;
	default:
		break;
	}
}

bool bar_right(enum op op, const union arg *a, const struct bar *bar)
{
	uint32_t flags = op == OP_ALLOC ? IO_PEER_MEM_DM_ZERO : 0;

	if (op != OP_RANGE && (a->words[0] != 1 || a->words[1] & ~flags))
		return false;
	switch (op) {
	case OP_RANGE: return !a->range.reserved;
	case OP_NEAREST:
		return a->nearest.domain <= INT32_MAX && a->nearest.address <= 0xffff &&
		       zero(a->nearest.reserved, sizeof(a->nearest.reserved));
	case OP_ALLOC:
		return a->alloc.length && a->alloc.log_align < 64 &&
		       (!bar || 1ULL << a->alloc.log_align <= bar->size) &&
		       zero(a->alloc.reserved, sizeof(a->alloc.reserved));
	case OP_CAPACITY: return zero(a->capacity.reserved, sizeof(a->capacity.reserved));
	case OP_INFO: return zero(a->info.reserved, sizeof(a->info.reserved));
	default: return zero(a->free.reserved, sizeof(a->free.reserved));
	}
}

static void allocated(struct thread *t, const struct file *on, const union arg *q,
		      const struct io_peer_mem_dm_alloc *a)
{
	uint64_t end = a->bar_offset + a->length;
	struct file *f;

	if (a->length != q->alloc.length || a->log_align != q->alloc.log_align || a->fd < 0 ||
	    a->bar_offset % PAGE || a->bar_offset & ((1ULL << a->log_align) - 1) ||
	    end < a->length || end > bars[on ? on->bar : 0].size)
		bug(t, "allocation: fd %d, offset %#llx, length %#llx", a->fd, a->bar_offset,
		    a->length);
	/* It is unknown which BAR a shared descriptor was. */
	if (!on) {
		dup3(a->fd, pick_shared(t), O_CLOEXEC);
		close(a->fd);
		return;
	}
	if (!claim(on->bar, on->node, a->bar_offset, a->length))
		bug(t, "allocation: %#llx bytes at %#llx are allocated already", a->length,
		    a->bar_offset);
	f = slot_for_dm(t);
	*f = *on;
	f->kind = DM;
	f->fd = a->fd;
	f->freed = false;
	f->offset = a->bar_offset;
	f->length = a->length;
}

void bar_answered(struct thread *t, enum op op, struct file *f, const union arg *q,
		  const union arg *a)
{
	uint64_t most = bars[f ? f->bar : 0].size;

	switch (op) {
	case OP_RANGE:
		if (a->range.addr != q->range.addr || !a->range.length || a->range.reserved ||
		    a->range.bar_offset >= most || a->range.length > most - a->range.bar_offset)
			bug(t, "range: %#llx bytes at %#llx", a->range.length, a->range.bar_offset);
		break;
	case OP_NEAREST:
		if (a->nearest.version != 1 || a->nearest.flags & ~3 ||
		    a->nearest.domain != q->nearest.domain ||
		    a->nearest.address != q->nearest.address ||
		    !zero(a->nearest.reserved, sizeof(a->nearest.reserved)))
			bug(t, "nearest: a wrong result");
		break;
	case OP_ALLOC:
		allocated(t, f, q, &a->alloc);
		break;
	case OP_CAPACITY:
		if (a->capacity.total != most || a->capacity.free > most ||
		    a->capacity.largest > a->capacity.free || a->capacity.page_size != PAGE ||
		    !zero(a->capacity.reserved, sizeof(a->capacity.reserved)))
			bug(t, "capacity: %#llx total, %#llx free, %#llx largest",
			    a->capacity.total, a->capacity.free, a->capacity.largest);
		break;
	case OP_INFO:
		if (a->info.size % PAGE || a->info.length > a->info.size ||
		    a->info.size - a->info.length >= PAGE || a->info.size > most ||
		    a->info.bar_offset > most - a->info.size || a->info.pad || a->words[1] ||
		    !zero(a->info.reserved, sizeof(a->info.reserved)) ||
		    (f && (a->info.bar_offset != f->offset || a->info.length != f->length ||
			   a->info.address != bars[f->bar].address)))
			bug(t, "info: %#llx bytes at %#llx", a->info.length, a->info.bar_offset);
		break;
	default:
		break;
	}
}
