// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of the ioctls. Fills in a valid structure, then perhaps breaks it, and puts it at
 * a place that the kernel can read or not. fuzz_bar.c and fuzz_control.c have the contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "fuzz_ioctl.h"

/* --- the place of the structure --- */

/*
 * Pages for arguments below 4 GiB: writable, unmapped, writable, read-only, unmapped.
 * The same memory is mapped at @alias, writable throughout.
 */
enum { RW, HOLE, RW2, RO, HOLE2, ARG_PAGES };

void args_map(struct thread *t)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	t->args = mmap(NULL, ARG_PAGES * PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (fd < 0 || t->args == MAP_FAILED || ftruncate(fd, ARG_PAGES * PAGE))
		bug(t, "no memory for arguments");
	for (int i = 0; i < ARG_PAGES; i++) {
		int prot = i == RO ? PROT_READ : PROT_READ | PROT_WRITE;

		if (i != HOLE && i != HOLE2 &&
		    mmap(t->args + i * PAGE, PAGE, prot, MAP_SHARED | MAP_FIXED, fd,
			 i * PAGE) == MAP_FAILED)
			bug(t, "no memory for arguments");
	}
	t->alias = mmap(NULL, ARG_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (t->alias == MAP_FAILED)
		bug(t, "no memory for arguments");
	close(fd);
}

/* The kernel's access to the structure. */
enum place { WHOLE, READABLE, UNREADABLE, UNKNOWN };

static const uint64_t nowhere[] = {
	0, 1, PAGE, ~0ULL, ~0ULL - 31, 1ULL << 47, (1ULL << 47) - 32, 1ULL << 63,
	0xffff800000000000, 0xffff888000000000, 0xffffffff81000000, 0xfffffffffffff000,
};

/* Copies @arg to a random place, or chooses an address without memory. */
static enum place put(struct thread *t, const union arg *arg, size_t size, bool device, char **at)
{
	size_t part = 1 + below(t, size - 1), offset;
	enum place place = WHOLE;

	switch (below(t, 20)) {
	case 0: offset = HOLE * PAGE - part; place = UNREADABLE; break;
	case 1: offset = HOLE2 * PAGE - part; place = UNREADABLE; break;
	case 2: offset = RO * PAGE - part; place = READABLE; break;
	case 3: offset = RO * PAGE + below(t, PAGE - size); place = READABLE; break;
	case 4:
		*at = (char *)nowhere[below(t, sizeof(nowhere) / sizeof(nowhere[0]))];
		return UNREADABLE;
	case 5:
		if (device) {
			*at = arena_any(t);
			touch(*at, true);	/* the version */
			return UNKNOWN;
		}
		/* fallthrough */
	default: offset = below(t, PAGE - size);
	}
	*at = t->args + offset;
	/* The alias has memory for the holes as well. */
	memcpy(t->alias + offset, arg->bytes, size);
	return place;
}

/* --- calling --- */

static int call(struct thread *t, int fd, unsigned long cmd, void *arg)
{
	if (compat && (uintptr_t)arg >> 32 == 0 && one_in(t, 3))
		return ioctl32(fd, cmd, arg);
	return ioctl(fd, cmd, arg) ? errno : 0;
}

/* --- the contents of the structure --- */

static const struct {
	unsigned long cmd;
	size_t size;
	enum kind on;
	bool answers;		/* the kernel writes the structure */
	const int *errnos;	/* of a valid call */
} what[] = {
	[OP_RANGE] = { IO_PEER_MEM_IOC_RANGE, sizeof(struct io_peer_mem_range), BAR, true,
		       ONE_OF(EFAULT, ENODEV) },
	[OP_NEAREST] = { IO_PEER_MEM_IOC_NEAREST, sizeof(struct io_peer_mem_nearest), BAR, true,
			 ONE_OF(ENXIO, ENODEV) },
	[OP_ALLOC] = { IO_PEER_MEM_IOC_DM_ALLOC, sizeof(struct io_peer_mem_dm_alloc), BAR, true,
		       ONE_OF(ENOMEM, ENODEV) },
	[OP_CAPACITY] = { IO_PEER_MEM_IOC_DM_CAPACITY, sizeof(struct io_peer_mem_dm_capacity),
			  BAR, true, ONE_OF(ENODEV) },
	[OP_INFO] = { IO_PEER_MEM_IOC_DM_INFO, sizeof(struct io_peer_mem_dm_info), DM, true,
		      ONE_OF(ENODEV) },
	[OP_FREE] = { IO_PEER_MEM_IOC_DM_FREE, sizeof(struct io_peer_mem_dm_free), DM, false,
		      ONE_OF(EBUSY, ENODEV) },
	[OP_EXPORT] = { IB_PEER_MEM_IOC_EXPORT, sizeof(struct ib_peer_mem_export), NONE, true,
			ONE_OF(EFAULT, ENODEV, ENOMEM) },
	/* The descriptor may be any file, which also has no room for the range. */
	[OP_NAME] = { IB_PEER_MEM_IOC_NAME, sizeof(struct ib_peer_mem_name), NONE, false,
		      ONE_OF(EINVAL, EBADF, EACCES, EEXIST, ENOMEM) },
	[OP_UNNAME] = { IB_PEER_MEM_IOC_UNNAME, sizeof(struct ib_peer_mem_name), NONE, false,
			ONE_OF(EINVAL, EBADF, ENOENT) },
	[OP_QUERY] = { IB_PEER_MEM_IOC_QUERY, sizeof(struct ib_peer_mem_name), NONE, true,
		       ONE_OF(ENOENT) },
};

/* Returns whether the ioctl is one of /dev/ib_peer_mem. */
static bool of_control(enum op op)
{
	return op >= OP_EXPORT && op <= OP_QUERY;
}

static void spoil(struct thread *t, union arg *a, size_t size)
{
	for (uint64_t n = 1 + below(t, 2); n; n--) {
		switch (below(t, 8)) {
		case 0: a->bytes[below(t, size)] = any(t); break;
		case 1: a->bytes[below(t, size)] ^= 1 << below(t, 8); break;
		case 2 ... 3: a->words[below(t, size / 4)] = edge(t); break;
		case 4: a->words[below(t, 2)] = below(t, 4); break;
		case 5 ... 6: a->longs[below(t, size / 8)] = edge(t); break;
		default:
			for (size_t i = 0; i < size; i++)
				a->bytes[i] = any(t);
		}
	}
}

bool zero(const void *from, size_t size)
{
	for (const unsigned char *at = from; size; size--)
		if (*at++)
			return false;
	return true;
}

static void make(struct thread *t, enum op op, const struct file *f, union arg *a)
{
	memset(a, 0, sizeof(*a));
	a->words[0] = 1;	/* the version; RANGE has none */
	if (of_control(op))
		control_make(t, op, a);
	else
		bar_make(t, op, f, a);
}

/* --- one call --- */

/* An unknown number: no ioctl, or one with another size or direction. */
static unsigned long no_such(struct thread *t)
{
	static const unsigned long others[] = {
		0x5401,		/* TCGETS */
		0xc0181b01,	/* RDMA_VERBS_IOCTL */
		0xae01,		/* KVM_CREATE_VM */
	};
	static const unsigned char numbers[] = { 1, 2, 0x10, 0x11, 0x12, 0x13 };
	unsigned int dir = below(t, 4), size, nr = numbers[below(t, sizeof(numbers))];

	switch (below(t, 6)) {
	case 0: return others[below(t, 3)];
	case 1: return _IOC(dir, IO_PEER_MEM_IOC_MAGIC + below(t, 2), 0x20 + below(t, 0xe0), 64);
	/* A size of no ioctl; also the largest. */
	case 2: size = one_in(t, 3) ? 0x3fff : 8 * (9 + below(t, 100)); break;
	case 3: size = below(t, 32); break;
	default:
		size = nr == 1 || nr == 0x13 ? 32 : 64;
		dir = nr == 0x13 ? _IOC_READ | below(t, 2) : below(t, 2) ? _IOC_READ : _IOC_WRITE;
	}
	return _IOC(dir, IO_PEER_MEM_IOC_MAGIC, nr, size);
}

static void call_nothing(struct thread *t)
{
	struct file *f = one_in(t, 2) ? pick_dm(t) : pick_bar(t);
	bool own = f && f->kind != NONE;
	int fd = own && !one_in(t, 3) ? f->fd : pick_shared(t);
	union arg a;
	char *at;

	make(t, OP_ALLOC, NULL, &a);
	put(t, &a, sizeof(a), true, &at);
	/* Neither our files nor /dev/null have these. */
	called(t, OP_NO_IOCTL, call(t, fd, no_such(t), at), ONE_OF(ENOTTY));
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

/* After DM_FREE: updates the state of the allocation. */
static void freed(struct thread *t, struct file *f, int error)
{
	if (!error || error == ENODEV)
		f->freed = true;
	else if (!claim(f->bar, f->node, f->offset, f->length))
		bug(t, "free: its pages were allocated again before it was freed");
}

static const int any_file[] = { ENOTTY, EINVAL, EFAULT, ENXIO, ENOMEM, EBUSY, ENODEV, EBADF, 0 };
static const int any_content[] = { EINVAL, EFAULT, ENXIO, ENOMEM, EBUSY, ENODEV, 0 };
static const int enotty[] = { ENOTTY, 0 }, efault[] = { EFAULT, 0 }, einval[] = { EINVAL, 0 };
static const int ebadf[] = { EBADF, 0 };

static const int *expected(enum op op, const struct file *f, bool is_right, enum place place)
{
	if (!of_control(op)) {
		if (!f)
			return any_file;
		if (f->kind != what[op].on)
			return enotty;
		if (op == OP_FREE && f->access != O_RDWR && f->access != O_WRONLY)
			return ebadf;
	}
	if (place == UNKNOWN)
		return any_content;
	if (place == UNREADABLE)
		return efault;
	return is_right ? what[op].errnos : mistaken ? enotty : einval;
}

static void call_ioctl(struct thread *t, enum op op)
{
	size_t size = what[op].size;
	union arg q, a;
	struct file *f;
	enum place place;
	bool is_right, frees;
	const int *errnos;
	int fd = pick(t, op, &f), error;
	char *at;

	make(t, op, f, &q);
	if (one_in(t, 3))
		spoil(t, &q, size);
	if (op == OP_NAME || op == OP_UNNAME)
		control_spare_fields(&q);
	is_right = of_control(op) ? control_right(op, &q) :
		   bar_right(op, &q, f && op == OP_ALLOC ? &bars[f->bar] : NULL);
	/*
	 * Another thread may change a structure in device memory: not for calls that return
	 * a descriptor, which would be lost.
	 */
	place = put(t, &q, size, op != OP_ALLOC && !of_control(op), &at);
	frees = op == OP_FREE && f && f->kind == DM && !f->freed;
	if (frees)
		unclaim(f->bar, f->node, f->offset, f->length);
	error = call(t, fd, what[op].cmd, at);
	errnos = expected(op, f, is_right, place);
	/* The result cannot be written back. */
	if (error == EFAULT && place == READABLE && what[op].answers && is_right)
		errnos = efault;
	called(t, op, error, errnos);

	if (place == WHOLE || (place == READABLE && !what[op].answers))
		memcpy(a.bytes, at, size);
	else
		a = q;
	if (error && (place == WHOLE) && memcmp(a.bytes, q.bytes, size))
		bug(t, "a failed call has changed its argument");
	if (frees)
		freed(t, f, error);
	if (error) {
		/* A file of a removed BAR stays dead. */
		if (error == ENODEV && f && f->kind == BAR)
			file_reopen(t, f);
		return;
	}
	if (place == UNKNOWN)
		return;
	if (!is_right)
		bug(t, "success with a wrong structure");
	if (place == UNREADABLE || (place == READABLE && what[op].answers))
		bug(t, "success with a structure that the kernel cannot %s",
		    place == READABLE ? "write" : "read");
	if (f && f->kind == DM && f->freed && !frees)
		bug(t, "success with an allocation that was freed");
	if (of_control(op))
		control_answered(t, op, &q, &a);
	else
		bar_answered(t, op, f, &q, &a);
}

void fuzz_ioctl(struct thread *t, enum op op)
{
	if (op == OP_NO_IOCTL)
		call_nothing(t);
	else
		call_ioctl(t, op);
}
