// SPDX-License-Identifier: GPL-2.0
/* Mappings and accesses, at addresses so low that the kernel does not choose them by itself. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/mman.h>

#include <ib_peer_mem.h>
#include <io_peer_mem.h>

#include "fuzz.h"
#include "memory.h"

#define ARENA_PAGES 64

/* On x86 alone. */
#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif

void arena_map(struct thread *t)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	t->args = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	t->arena = (char *)ARENA + ((uint64_t)t->number << 36);
	if (t->args == MAP_FAILED || mprotect(t->args, PAGE, PROT_READ | PROT_WRITE) ||
	    mmap(t->arena, ARENA_PAGES * PAGE, PROT_NONE, flags, -1, 0) != t->arena ||
	    mmap((void *)FIELD, FIELD_PAGES * PAGE, PROT_NONE, flags, -1, 0) == MAP_FAILED)
		bug(t, "no room for mappings");
}

char *some_range(struct thread *t, size_t *length)
{
	bool field = one_in(t, 4);
	uint64_t pages = field ? FIELD_PAGES : ARENA_PAGES, first = below(t, pages), left = pages - first;

	*length = (1 + below(t, left < 16 ? left : 16)) * PAGE;
	if (one_in(t, 8))
		*length -= below(t, PAGE);
	return (field ? (char *)FIELD : t->arena) + first * PAGE;
}

static int map(struct thread *t)
{
	static const int more[] = { MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_GROWSDOWN,
				    MAP_HUGETLB, MAP_DENYWRITE, MAP_NONBLOCK, MAP_32BIT, MAP_SYNC,
				    MAP_UNINITIALIZED };
	size_t length;
	char *at = some_range(t, &length), *got;
	bool field = (uintptr_t)at >= FIELD, host = one_in(t, field ? 4 : 10);
	enum kind kind = field ? DMABUF : one_in(t, 2) ? DM : BAR;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	uint64_t offset = kind == BAR || one_in(t, 2) ? 0 : below(t, 4) * PAGE;

	if (host)
		return mmap(at, length, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at ? 0 : errno;
	if (kind != BAR && one_in(t, 2))
		length = PAGE;
	if (one_in(t, 4))
		prot = below(t, 16);
	if (one_in(t, 8))
		flags = MAP_FIXED | below(t, 16);
	if (one_in(t, 6))
		flags |= PICK(t, more);
	if (one_in(t, 8))
		offset = one_in(t, 2) ? edge(t) : edge(t) * PAGE;
	else if (one_in(t, 6))
		offset |= IO_PEER_MEM_MMAP_WC;
	/* Without MAP_FIXED the mapping may be placed anywhere. */
	if (one_in(t, 16)) {
		flags = (flags & ~MAP_FIXED) | (one_in(t, 2) ? MAP_FIXED_NOREPLACE : 0);
		length = one_in(t, 2) ? edge(t) : length;
	}
	got = mmap(at, length, prot, flags, pick_file(t, kind), offset);
	if (got == MAP_FAILED)
		return errno;
	if (got != at)
		munmap(got, length);
	return 0;
}

static int remap(struct thread *t)
{
	size_t length, new;
	char *from = some_range(t, &length), *to = some_range(t, &new), *at;
	int flags = below(t, 8);

	if (one_in(t, 2))
		new = 1 + below(t, length);
	at = mremap(from, one_in(t, 8) ? 0 : length, new, flags, to);
	if (at == MAP_FAILED)
		return errno;
	if (at != from && at != to)
		munmap(at, new);
	return 0;
}

static int change(struct thread *t)
{
	/* Without those that take pages out of use permanently. */
	static const int advice[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
		MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE,
		MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK,
		MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
		MADV_DONTNEED_LOCKED, MADV_COLLAPSE, 102 /* MADV_GUARD_INSTALL */, 103,
	};
	size_t length;
	char *at = some_range(t, &length) + one_in(t, 16);

	switch (below(t, 12)) {
	case 0 ... 2: return munmap(at, length) ? errno : 0;
	case 3 ... 5: return mprotect(at, length, below(t, 8)) ? errno : 0;
	case 6: return remap(t);
	case 7: return mlock(at, length) ? errno : 0;
	case 8: return munlock(at, length) ? errno : 0;
	case 9: return msync(at, length, 1 << below(t, 3)) ? errno : 0;
	default: return madvise(at, length, PICK(t, advice)) ? errno : 0;
	}
}

/* A signal counts as EFAULT. System calls pin the memory. */
static int access_it(struct thread *t)
{
	size_t length, n = 1 + below(t, 256);
	char *at = some_range(t, &length) + below(t, PAGE), buffer[256] = { 1 };
	struct iovec here = { .iov_base = buffer, .iov_len = n };
	struct iovec there = { .iov_base = at, .iov_len = n };

	switch (below(t, 5)) {
	case 0 ... 1: return memory_read(buffer, at, 1) ? EFAULT : 0;
	case 2: return memory_fill(at, 1, t->random) ? EFAULT : 0;
	case 3: return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 ? errno : 0;
	default: return process_vm_writev(getpid(), &here, 1, &there, 1, 0) < 0 ? errno : 0;
	}
}

static void child(struct thread *t)
{
	struct ib_peer_mem_name name = { .version = IB_PEER_MEM_NAME_VERSION, .addr = FIELD, .length = PAGE,
					 .fd = pick_file(t, DMABUF) };
	bool execute = one_in(t, 2);

	alarm(60);
	for (int i = 0; i < 8; i++) {
		access_it(t);
		change(t);
	}
	ioctl(export_device, IB_PEER_MEM_IOC_NAME, &name);
	if (execute)
		execl("/bin/true", "true", NULL);
	_exit(execute);
}

/* A child inherits the mappings and files, unmaps some, and has names of its own. */
static int have_child(struct thread *t)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		child(t);
	if (pid < 0)
		return errno;
	if (waitpid(pid, &status, 0) != pid || status)
		bug(t, "a child ended with status %#x", status);
	return 0;
}

int fuzz_memory(struct thread *t)
{
	switch (t->op) {
	case OP_OPEN: return open_bar(t);
	case OP_MMAP: return map(t);
	case OP_MAPPING: return change(t);
	case OP_ACCESS: return access_it(t);
	default: return have_child(t);
	}
}
