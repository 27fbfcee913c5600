// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings. All lie in an address range of the thread, at low addresses that the kernel
 * does not choose by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/mman.h>

#include <io_peer_mem.h>

#include "common.h"
#include "fuzz.h"

#define ARENA_BYTES ((size_t)ARENA_PAGES * PAGE)

void arena_map(struct thread *t)
{
	t->arena = (char *)0x200000000000 + ((uint64_t)t->number << 36);
	if (mmap(t->arena, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
		 MAP_FIXED_NOREPLACE, -1, 0) != t->arena)
		bug(t, "no room for mappings");
}

bool in_arena(struct thread *t, const char *at, uint64_t length)
{
	return at >= t->arena && at <= t->arena + ARENA_BYTES &&
	       length <= (uint64_t)(t->arena + ARENA_BYTES - at);
}

/* Ends the claims of mappings that the next call may remove. */
static void drop(struct thread *t, const char *at, uint64_t length)
{
	for (struct held *h = t->held; h < t->held + HELD; h++) {
		if (!h->length || h->addr + h->length <= at || at + length <= h->addr)
			continue;
		if (h->claimed)
			unclaim(h->bar, h->node, h->offset, h->length);
		h->length = 0;
	}
}

void arena_unmap(struct thread *t)
{
	drop(t, t->arena, ARENA_BYTES);
	munmap(t->arena, ARENA_BYTES);
}

const struct held *pick_held(struct thread *t)
{
	size_t first = below(t, HELD);

	for (size_t i = 0; i < HELD; i++)
		if (t->held[(first + i) % HELD].length)
			return &t->held[(first + i) % HELD];
	return NULL;
}

/* Mostly a mapped page, for calls that do not remove mappings. */
static char *mapped_page(struct thread *t)
{
	const struct held *h = one_in(t, 4) ? NULL : pick_held(t);

	if (h)
		return h->addr + below(t, h->length / PAGE) * PAGE;
	return t->arena + below(t, ARENA_PAGES) * PAGE;
}

/* Any page, for calls that may remove a mapping. */
static char *some_page(struct thread *t)
{
	return one_in(t, 8) ? mapped_page(t) : t->arena + below(t, ARENA_PAGES) * PAGE;
}

char *arena_any(struct thread *t)
{
	return mapped_page(t) + (one_in(t, 2) ? 0 : below(t, PAGE));
}

/* A length from @at within the arena, mostly of whole pages. */
static size_t some_length(struct thread *t, const char *at)
{
	uint64_t room = (t->arena + ARENA_BYTES - at) / PAGE;
	uint64_t n = 1 + below(t, one_in(t, 128) ? 512 : 16);
	size_t length = (n < room ? n : room) * PAGE;

	return one_in(t, 8) ? length - below(t, PAGE) : length;
}

/* Mostly a part of a mapping, else any pages. */
void piece(struct thread *t, char **at, uint64_t *length)
{
	const struct held *h = one_in(t, 4) ? NULL : pick_held(t);
	uint64_t first;

	if (!h) {
		*at = mapped_page(t);
		*length = some_length(t, *at);
		return;
	}
	first = below(t, h->length / PAGE);
	*at = h->addr + first * PAGE;
	*length = (1 + below(t, h->length / PAGE - first)) * PAGE;
}

/* --- mmap(2) --- */

static const int mmap_errnos[] = { EINVAL, ENOMEM, ENODEV, EACCES, EEXIST, EOVERFLOW,
				   EOPNOTSUPP, EBADF, EPERM, EAGAIN, ENXIO, 0 };

struct request {
	char *at;
	uint64_t length;
	int prot, flags;
	uint64_t offset;
	bool right;
};

static struct request make(struct thread *t, const struct file *f)
{
	static const int more[] = { MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_GROWSDOWN,
				    MAP_HUGETLB, MAP_DENYWRITE, MAP_NONBLOCK, MAP_32BIT, MAP_SYNC,
				    MAP_UNINITIALIZED };
	struct request r = {
		.at = some_page(t),
		.prot = PROT_READ | PROT_WRITE,
		.flags = MAP_SHARED | MAP_FIXED,
	};
	uint64_t pages = f && f->kind == DM ? (f->length + PAGE - 1) / PAGE : 0;

	r.length = some_length(t, r.at);
	if (pages && !one_in(t, 4)) {
		r.offset = below(t, pages) * PAGE;
		r.length = (1 + below(t, pages - r.offset / PAGE)) * PAGE;
	}
	if (one_in(t, 4))
		r.prot = below(t, 16);
	if (one_in(t, 8))
		r.flags = MAP_FIXED | below(t, 16);
	if (one_in(t, 6))
		r.flags |= more[below(t, sizeof(more) / sizeof(more[0]))];
	if (one_in(t, 8))
		r.offset = one_in(t, 2) ? edge(t) : edge(t) * PAGE;
	if (one_in(t, 12))
		r.length = edge(t);
	/* Without MAP_FIXED the mapping may be placed anywhere. */
	if (!in_arena(t, r.at, r.length) || one_in(t, 16))
		r.flags = (r.flags & ~MAP_FIXED) | (one_in(t, 2) ? MAP_FIXED_NOREPLACE : 0);
	r.right = ((r.flags & MAP_TYPE) == MAP_SHARED || (r.flags & MAP_TYPE) == MAP_SHARED_VALIDATE) &&
		  r.length && r.offset % PAGE == 0;
	return r;
}

/* Records a new mapping, and claims its memory. */
static void hold(struct thread *t, const struct file *f, char *at, const struct request *r)
{
	uint64_t length = (r->length + PAGE - 1) / PAGE * PAGE, offset = 0, rest;
	struct held *h = t->held;
	int error = 0;

	starve(t, false);
	if (f->kind == BAR)
		error = ask_range(f->fd, at, &offset, &rest);

	/* The device may have been removed. */
	if (error && error != ENODEV)
		bug(t, "RANGE does not find a new mapping: %s", strerrorname_np(error));
	if (error)
		return;
	if (f->kind == BAR && rest != length)
		bug(t, "RANGE of a mapping of %#llx bytes returns %#llx", (unsigned long long)length,
		    (unsigned long long)rest);
	if (offset + length > bars[f->bar].size)
		bug(t, "a mapping ends past the BAR");
	while (h < t->held + HELD && h->length)
		h++;
	if (h == t->held + HELD)
		return;
	/* The pages of an allocation are claimed already. */
	if (f->kind == BAR && !claim(f->bar, f->node, offset, length))
		bug(t, "mmap: %#llx bytes at %#llx are allocated already",
		    (unsigned long long)length, (unsigned long long)offset);
	*h = (struct held){ .addr = at, .length = length, .claimed = f->kind == BAR, .bar = f->bar,
			    .node = f->node, .offset = offset };
}

/* Checks that a mapping of an allocation maps its memory. */
static void check_dm(struct thread *t, const struct file *f, const char *at,
		     const struct request *r)
{
	uint64_t size = (f->length + PAGE - 1) / PAGE * PAGE, offset, length;

	starve(t, false);
	if (f->freed || r->offset > size || r->length > size - r->offset)
		bug(t, "mmap of bytes outside of the allocation");
	for (struct file *bar = t->files; bar < t->files + PRIVATE_BARS; bar++)
		if (bar->kind == BAR && bar->bar == f->bar && bar->node == f->node &&
		    !ask_range(bar->fd, at, &offset, &length) && offset != f->offset + r->offset)
			bug(t, "a mapping at %#llx of an allocation at %#llx is at %#llx",
			    (unsigned long long)r->offset, (unsigned long long)f->offset,
			    (unsigned long long)offset);
}

static void map(struct thread *t)
{
	struct file *f = one_in(t, 4) ? NULL : one_in(t, 2) ? pick_dm(t) : pick_bar(t);
	struct request r;
	char *at;
	int error;

	if (f && f->kind == NONE)
		f = NULL;
	r = make(t, f);
	if (r.flags & MAP_FIXED)
		drop(t, r.at, r.length);
	at = mmap(r.at, r.length, r.prot, r.flags, f ? f->fd : pick_shared(t), r.offset);
	error = at == MAP_FAILED ? errno : 0;
	called(t, OP_MMAP, error, mmap_errnos);
	if (error)
		return;
	/* A flag, which these devices take out of the offset. */
	if (f)
		r.offset &= ~IO_PEER_MEM_MMAP_WC;
	if (f && (!r.right || (f->kind == BAR && r.offset)))
		bug(t, "mmap succeeded: length %#llx, flags %#x, offset %#llx",
		    (unsigned long long)r.length, r.flags, (unsigned long long)r.offset);
	if (f && ((r.prot & PROT_WRITE && f->access != O_RDWR) ||
		  (f->access != O_RDWR && f->access != O_RDONLY)))
		bug(t, "mmap succeeded: access mode %d, protection %d", f->access, r.prot);
	if (f && f->kind == DM)
		check_dm(t, f, at, &r);
	if (!in_arena(t, at, r.length)) {
		touch(at, false);
		munmap(at, r.length);
	} else if (f) {
		hold(t, f, at, &r);
	}
}

/* --- changes of mappings --- */

static void unmap(struct thread *t)
{
	char *at = one_in(t, 16) ? arena_any(t) : some_page(t);
	size_t length = one_in(t, 16) ? 0 : some_length(t, at);

	drop(t, at, length + PAGE);
	called(t, OP_MUNMAP, munmap(at, length) ? errno : 0, ONE_OF(EINVAL));
}

static void protect(struct thread *t)
{
	uint64_t length;
	char *at;

	piece(t, &at, &length);
	called(t, OP_MPROTECT, mprotect(at, length, below(t, 8)) ? errno : 0,
	       ONE_OF(EACCES, ENOMEM, EINVAL));
}

static void advise(struct thread *t)
{
	/* Without those that take pages out of use permanently. */
	static const int advice[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
		MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE,
		MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK,
		MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
		MADV_DONTNEED_LOCKED, MADV_COLLAPSE, 102 /* MADV_GUARD_INSTALL */, 103,
	};
	static const int errnos[] = { EINVAL, ENOMEM, EACCES, EFAULT, EBADF, EIO, EBUSY, EAGAIN,
				      EPERM, EOPNOTSUPP, EHWPOISON, ENODEV, EREMOTEIO, 0 };
	uint64_t length;
	char *at;
	int error;

	piece(t, &at, &length);
	switch (below(t, 6)) {
	case 0: error = mlock(at, length) ? errno : 0; break;
	case 1: error = munlock(at, length) ? errno : 0; break;
	case 2: error = msync(at, length, 1 << below(t, 3)) ? errno : 0; break;
	default:
		error = madvise(at, length, advice[below(t, sizeof(advice) / sizeof(advice[0]))]) ?
			errno : 0;
	}
	called(t, OP_MADVISE, error, errnos);
}

static void remap(struct thread *t)
{
	char *from, *to = some_page(t), *at;
	uint64_t length, new = some_length(t, to);
	int flags = below(t, 8);
	int error;

	piece(t, &from, &length);
	if (one_in(t, 2))
		new = 1 + below(t, length);
	if (one_in(t, 8))
		length = 0;

	/* Without MREMAP_FIXED the kernel chooses the address. */
	drop(t, from, length > new ? length : new);
	if (flags & MREMAP_FIXED)
		drop(t, to, new);
	at = mremap(from, length, new, flags, to);
	error = at == MAP_FAILED ? errno : 0;
	called(t, OP_MREMAP, error, ONE_OF(EINVAL, EFAULT, ENOMEM, EAGAIN, EPERM));
	if (!error && !in_arena(t, at, new))
		munmap(at, new);
}

/* Host memory among the mappings. */
static void plain(struct thread *t)
{
	char *at = some_page(t);
	size_t length = some_length(t, at);

	drop(t, at, length);
	called(t, OP_MMAP, mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
				MAP_FIXED, -1, 0) == MAP_FAILED ? errno : 0, ONE_OF(ENOMEM));
}

/* --- accesses --- */

static void access_it(struct thread *t)
{
	bool there = touch(arena_any(t), one_in(t, 2));

	/* A signal counts as EFAULT. */
	called(t, OP_TOUCH, there ? 0 : EFAULT, ONE_OF(EFAULT));
}

/* System calls whose buffer is device memory, by copying or by pinning it. */
static void copy(struct thread *t)
{
	char *at = arena_any(t), buffer[256];
	size_t n = 1 + below(t, sizeof(buffer));
	struct iovec here = { .iov_base = buffer, .iov_len = n };
	struct iovec there = { .iov_base = at, .iov_len = n };
	int ends[2], error;
	ssize_t done;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		bug(t, "pipe: %s", strerrorname_np(errno));
	switch (below(t, 6)) {
	case 0: done = write(ends[1], at, n); break;
	case 1:
		done = write(ends[1], buffer, n);
		done = read(ends[0], at, n);
		break;
	case 2: done = vmsplice(ends[1], &there, 1, SPLICE_F_NONBLOCK); break;
	case 3: done = process_vm_readv(getpid(), &here, 1, &there, 1, 0); break;
	case 4: done = process_vm_writev(getpid(), &here, 1, &there, 1, 0); break;
	default:
		memset(buffer, 0, sizeof(buffer));
		done = one_in(t, 2) ? pread(own_memory, buffer, n, (uintptr_t)at)
				    : pwrite(own_memory, buffer, n, (uintptr_t)at);
	}
	error = done < 0 ? errno : 0;
	close(ends[0]);
	close(ends[1]);
	called(t, OP_COPY, error, ONE_OF(EFAULT, EIO, EREMOTEIO, EAGAIN, EPERM, ENOMEM, EOPNOTSUPP));
}

static void child(struct thread *t)
{
	alarm(60);
	if (t->field && one_in(t, 2))
		field_child(t);
	for (int i = 0; i < 8; i++) {
		struct file *f = &t->files[below(t, PRIVATE_FILES)];
		char *at = some_page(t);
		uint64_t offset, length;

		touch(at, true);
		if (f->kind != NONE)
			ask_range(f->fd, at, &offset, &length);
		munmap(at, PAGE);
	}
	_exit(0);
}

/* A child inherits the mappings and files, and unmaps some. */
static void have_child(struct thread *t)
{
	int status, error = 0;
	pid_t pid = fork();

	if (!pid)
		child(t);
	if (pid < 0)
		error = errno;
	else if (waitpid(pid, &status, 0) != pid || status)
		bug(t, "a child ended with status %#x", status);
	called(t, OP_FORK, error, ONE_OF(ENOMEM, EAGAIN));
}

void fuzz_map(struct thread *t, enum op op)
{
	switch (op) {
	case OP_MMAP:
		if (one_in(t, 10))
			plain(t);
		else
			map(t);
		break;
	case OP_MUNMAP: unmap(t); break;
	case OP_MPROTECT: protect(t); break;
	case OP_MADVISE: advise(t); break;
	case OP_MREMAP: remap(t); break;
	case OP_TOUCH: access_it(t); break;
	case OP_COPY: copy(t); break;
	default: have_child(t);
	}
}
