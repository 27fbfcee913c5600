// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls, with structures that are valid or not, at places that the kernel can access or not. Which
 * errno a wrong field has is for KUnit and for the programs of the suites dm, bars, export and named.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ib_peer_mem.h>
#include <io_peer_mem.h>

#include "common.h"
#include "fuzz.h"

/* Addresses to name, at which there is no memory. */
#define NAMED 0x100000000000ULL
#define NAMED_PAGES 16

union arg {
	struct io_peer_mem_range range;
	struct io_peer_mem_nearest nearest;
	struct io_peer_mem_dm_alloc alloc;
	struct io_peer_mem_dm_info info;
	struct ib_peer_mem_export export;
	struct ib_peer_mem_name name;
	unsigned char bytes[64];
	uint32_t words[16];
	uint64_t longs[8];
};

static const struct {
	unsigned long cmd;
	size_t size;
	enum kind on;
} what[] = {
	[OP_RANGE] = { IO_PEER_MEM_IOC_RANGE, sizeof(struct io_peer_mem_range), BAR },
	[OP_NEAREST] = { IO_PEER_MEM_IOC_NEAREST, sizeof(struct io_peer_mem_nearest), BAR },
	[OP_ALLOC] = { IO_PEER_MEM_IOC_DM_ALLOC, sizeof(struct io_peer_mem_dm_alloc), BAR },
	[OP_CAPACITY] = { IO_PEER_MEM_IOC_DM_CAPACITY, sizeof(struct io_peer_mem_dm_capacity), BAR },
	[OP_INFO] = { IO_PEER_MEM_IOC_DM_INFO, sizeof(struct io_peer_mem_dm_info), DM },
	[OP_FREE] = { IO_PEER_MEM_IOC_DM_FREE, sizeof(struct io_peer_mem_dm_free), DM },
	[OP_EXPORT] = { IB_PEER_MEM_IOC_EXPORT, sizeof(struct ib_peer_mem_export), NONE },
	[OP_NAME] = { IB_PEER_MEM_IOC_NAME, sizeof(struct ib_peer_mem_name), NONE },
	[OP_UNNAME] = { IB_PEER_MEM_IOC_UNNAME, sizeof(struct ib_peer_mem_name), NONE },
	[OP_QUERY] = { IB_PEER_MEM_IOC_QUERY, sizeof(struct ib_peer_mem_name), NONE },
	/* An unknown number. */
	[OP_NO_IOCTL] = { _IOWR(IO_PEER_MEM_IOC_MAGIC, 0x1f, union arg), sizeof(union arg), BAR },
};

/* With -x without the first. */
static const int errnos[] = { EINVAL, EFAULT, ENOTTY, ENXIO, ENOENT, EEXIST, EACCES, EBADF, ENOMEM, EBUSY,
			      ENODEV, 0 };

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

void unname_all(void)
{
	struct ib_peer_mem_name all = { .version = IB_PEER_MEM_NAME_VERSION, .length = 1ULL << 62 };

	while (!ioctl(export_device, IB_PEER_MEM_IOC_UNNAME, &all))
		;
}

/* A page for arguments below 4 GiB, and one that cannot be accessed behind it. */
void args_map(struct thread *t)
{
	t->args = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (t->args == MAP_FAILED || mprotect(t->args, PAGE, PROT_READ | PROT_WRITE))
		bug(t, "no memory for arguments");
}

/* The kernel's access to the structure. Another thread may change one in device memory. */
enum place { WHOLE, UNREADABLE, DEVICE };

static enum place put(struct thread *t, const union arg *arg, size_t size, bool device, char **at)
{
	static const uint64_t nowhere[] = { 0, ~0ULL, 1ULL << 47, (1ULL << 47) - 32, 0xffff888000000000 };
	size_t part = 1 + below(t, size - 1);

	switch (below(t, 16)) {
	case 0:
		*at = t->args + PAGE - part;
		memcpy(*at, arg->bytes, part);
		return UNREADABLE;
	case 1:
		*at = (char *)nowhere[below(t, sizeof(nowhere) / sizeof(nowhere[0]))];
		return UNREADABLE;
	case 2:
		if (device) {
			*at = arena_any(t);
			touch(*at, true);	/* the version */
			return DEVICE;
		}
		/* fallthrough */
	default:
		*at = t->args + below(t, PAGE - size);
		memcpy(*at, arg->bytes, size);
		return WHOLE;
	}
}

/* Returns whether the ioctl is one of /dev/ib_peer_mem. */
static bool of_control(enum op op)
{
	return op >= OP_EXPORT && op <= OP_QUERY;
}

/* A valid structure. @f: the file of the call, or NULL. */
static void make(struct thread *t, enum op op, const struct file *f, union arg *a)
{
	const struct held *h = one_in(t, 4) ? NULL : pick_held(t);
	const struct bar *bar = &bars[below(t, BARS)];
	char *there = h ? h->addr + below(t, h->length) : arena_any(t);

	memset(a, 0, sizeof(*a));
	a->words[0] = 1;	/* the version; RANGE has none */
	switch (op) {
	case OP_RANGE:
		for (int i = 0; i < 4 && h && f && (h->bar != f->bar || h->node != f->node); i++)
			h = pick_held(t);
		a->range.addr = (uintptr_t)(h ? h->addr : there);
		break;
	case OP_NEAREST:
		a->nearest.domain = bar->domain;
		a->nearest.address = one_in(t, 2) ? below(t, 0x100) : bar->address;
		break;
	case OP_ALLOC:
		a->alloc.length = one_in(t, 24) ? bar->size / (1 + below(t, 2)) : 1 + below(t, 16 * PAGE);
		a->alloc.log_align = below(t, 16);
		break;
	case OP_EXPORT:
		a->export.addr = (uintptr_t)there / PAGE * PAGE;
		a->export.length = PAGE * (1 + below(t, 2));
		break;
	case OP_NAME ... OP_QUERY:
		a->name.addr = NAMED + PAGE * below(t, NAMED_PAGES);
		a->name.length = op == OP_QUERY ? 0 : PAGE * (1 + below(t, 2));
		a->name.fd = op == OP_NAME ? pick_shared(t) : 0;
		if (op == OP_UNNAME && one_in(t, 2)) {
			a->name = (struct ib_peer_mem_name) { .version = 1, .fd = pick_shared(t),
							      .flags = IB_PEER_MEM_UNNAME_DMABUF };
		}
		break;
	default:
		break;
	}
}

static void spoil(struct thread *t, union arg *a, size_t size)
{
	switch (below(t, 4)) {
	case 0: a->bytes[below(t, size)] ^= 1 << below(t, 8); break;
	case 1: a->words[below(t, size / 4)] = edge(t); break;
	case 2: a->longs[below(t, size / 8)] = edge(t); break;
	default:
		for (size_t i = 0; i < size; i++)
			a->bytes[i] = any(t);
	}
}

/*
 * Changes a range or a descriptor of NAME and UNNAME that is in a field or of a dma-buf of a field:
 * the thread of a field knows its names.
 */
static void spare_fields(union arg *a)
{
	bool is_shared = false;

	for (int i = 0; i < SHARED_FILES; i++)
		is_shared |= shared[i] == a->name.fd;
	if (a->name.addr < FIELDS_END &&
	    (a->name.addr >= FIELDS_START || a->name.length > FIELDS_START - a->name.addr))
		a->name.length = 0;
	/* No file has a number beyond the limit; the first three are no dma-bufs. */
	if (a->name.fd > 2 && a->name.fd < sysconf(_SC_OPEN_MAX) && !is_shared)
		a->name.fd = -1;
}

/*
 * Picks a file, mostly a private one of the right kind. @f is NULL for a shared
 * descriptor, whose file is unknown.
 */
static int pick(struct thread *t, enum op op, struct file **f)
{
	bool wrong = one_in(t, 24);

	*f = NULL;
	if (of_control(op))
		return export_device;
	if (!one_in(t, 4))
		*f = (what[op].on == DM) != wrong ? pick_dm(t) : pick_bar(t);
	if (*f && (*f)->kind == NONE)
		*f = NULL;
	return *f ? (*f)->fd : pick_shared(t);
}

static void allocated(struct thread *t, const struct file *on, const struct io_peer_mem_dm_alloc *a)
{
	uint64_t end = a->bar_offset + a->length;
	struct file *f;

	/* It is unknown which BAR a shared descriptor was. */
	if (!on) {
		dup3(a->fd, pick_shared(t), O_CLOEXEC);
		close(a->fd);
		return;
	}
	if (a->fd < 0 || a->bar_offset % PAGE || end < a->length || end > bars[on->bar].size ||
	    !claim(on->bar, on->node, a->bar_offset, a->length))
		bug(t, "allocation: %#llx bytes at %#llx are not there, or allocated already", a->length,
		    a->bar_offset);
	f = slot_for_dm(t);
	*f = *on;
	f->kind = DM;
	f->fd = a->fd;
	f->freed = false;
	f->offset = a->bar_offset;
	f->length = a->length;
}

void fuzz_ioctl(struct thread *t, enum op op)
{
	size_t size = what[op].size;
	union arg q, a;
	struct file *f;
	enum place place;
	bool frees;
	int fd = pick(t, op, &f), error;
	char *at;

	make(t, op, f, &q);
	if (one_in(t, 3))
		spoil(t, &q, size);
	if (op == OP_NAME || op == OP_UNNAME)
		spare_fields(&q);
	/* Not for calls that return a descriptor, which would be lost. */
	place = put(t, &q, size, op != OP_ALLOC && !of_control(op), &at);
	frees = op == OP_FREE && f && f->kind == DM && !f->freed;
	if (frees)
		unclaim(f->bar, f->node, f->offset, f->length);
	if (compat && (uintptr_t)at >> 32 == 0 && one_in(t, 3))
		error = ioctl32(fd, what[op].cmd, at);
	else
		error = ioctl(fd, what[op].cmd, at) ? errno : 0;
	called(t, op, error, errnos + mistaken);
	memcpy(a.bytes, place == WHOLE ? at : (char *)q.bytes, size);
	if (frees && (!error || error == ENODEV))
		f->freed = true;
	else if (frees && !claim(f->bar, f->node, f->offset, f->length))
		bug(t, "free: its pages were allocated again before it was freed");
	if (error) {
		if (memcmp(a.bytes, q.bytes, size))
			bug(t, "a failed call has changed its argument");
		/* A file of a removed BAR stays dead. */
		if (error == ENODEV && f && f->kind == BAR)
			file_reopen(t, f);
		return;
	}
	if (place == UNREADABLE)
		bug(t, "success with a structure that the kernel cannot read");
	if (f && f->kind == DM && f->freed && !frees)
		bug(t, "success with an allocation that was freed");
	if (op == OP_ALLOC)
		allocated(t, f, &a.alloc);
	if (op == OP_INFO && f && place == WHOLE &&
	    (a.info.bar_offset != f->offset || a.info.length != f->length))
		bug(t, "info: %#llx bytes at %#llx", a.info.length, a.info.bar_offset);
	if (op == OP_EXPORT) {
		if (a.export.fd < 0)
			bug(t, "export: fd %d", a.export.fd);
		dup3(a.export.fd, pick_shared(t), O_CLOEXEC);
		close(a.export.fd);
	}
}
