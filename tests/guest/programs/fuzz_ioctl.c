// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls, with structures that are valid or not, at places that the kernel can access or not. Which
 * errno a wrong field has is for KUnit and for the programs of the suites dm, bars, export and named.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include <ib_peer_mem.h>
#include <io_peer_mem.h>

#include "fuzz.h"

union arg {
	struct io_peer_mem_range range;
	struct io_peer_mem_nearest nearest;
	struct io_peer_mem_dm_alloc alloc;
	struct ib_peer_mem_export export;
	struct ib_peer_mem_name name;
	unsigned char bytes[64];
	uint32_t words[16];
	uint64_t longs[8];
};

static const struct {
	unsigned long cmd;
	size_t size;
	enum kind on;	/* KINDS: /dev/ib_peer_mem */
} what[] = {
	[OP_RANGE] = { IO_PEER_MEM_IOC_RANGE, sizeof(struct io_peer_mem_range), BAR },
	[OP_NEAREST] = { IO_PEER_MEM_IOC_NEAREST, sizeof(struct io_peer_mem_nearest), BAR },
	[OP_ALLOC] = { IO_PEER_MEM_IOC_DM_ALLOC, sizeof(struct io_peer_mem_dm_alloc), BAR },
	[OP_CAPACITY] = { IO_PEER_MEM_IOC_DM_CAPACITY, sizeof(struct io_peer_mem_dm_capacity), BAR },
	[OP_INFO] = { IO_PEER_MEM_IOC_DM_INFO, sizeof(struct io_peer_mem_dm_info), DM },
	[OP_FREE] = { IO_PEER_MEM_IOC_DM_FREE, sizeof(struct io_peer_mem_dm_free), DM },
	[OP_EXPORT] = { IB_PEER_MEM_IOC_EXPORT, sizeof(struct ib_peer_mem_export), KINDS },
	[OP_NAME] = { IB_PEER_MEM_IOC_NAME, sizeof(struct ib_peer_mem_name), KINDS },
	[OP_UNNAME] = { IB_PEER_MEM_IOC_UNNAME, sizeof(struct ib_peer_mem_name), KINDS },
	[OP_QUERY] = { IB_PEER_MEM_IOC_QUERY, sizeof(struct ib_peer_mem_name), KINDS },
	[OP_NO_IOCTL] = { _IOWR(IO_PEER_MEM_IOC_MAGIC, 0x1f, union arg), sizeof(union arg), BAR },
};

/* A valid structure. */
static void make(struct thread *t, union arg *a)
{
	size_t length;
	char *at = some_range(t, &length);

	memset(a, 0, sizeof(*a));
	a->words[0] = 1;	/* the version; RANGE has none */
	switch (t->op) {
	case OP_RANGE:
		a->range.addr = (uintptr_t)at + (one_in(t, 2) ? 0 : below(t, PAGE));
		break;
	case OP_NEAREST:
		a->nearest.address = below(t, 0x100);
		break;
	case OP_ALLOC:
		a->alloc.length = 1 + below(t, one_in(t, 24) ? 4 << 20 : 16 * PAGE);
		a->alloc.log_align = below(t, 16);
		break;
	case OP_EXPORT:
		a->export.addr = (uintptr_t)at;
		a->export.length = PAGE * (1 + below(t, 2));
		break;
	case OP_NAME ... OP_QUERY:
		a->name.addr = FIELD + PAGE * below(t, FIELD_PAGES);
		a->name.length = t->op == OP_QUERY ? 0 : PAGE * (1 + below(t, 2));
		a->name.fd = t->op == OP_NAME ? pick_file(t, DMABUF) : 0;
		if (t->op == OP_NAME && one_in(t, 3))
			a->name.flags = IB_PEER_MEM_NAME_REPLACE;
		if (t->op == OP_UNNAME && one_in(t, 2))
			a->name = (struct ib_peer_mem_name) { .version = 1, .fd = pick_file(t, DMABUF),
							      .flags = IB_PEER_MEM_UNNAME_DMABUF };
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
			a->bytes[i] = below(t, 256);
	}
	/* An MR of the arena lies in what is mapped there (fuzz_rdma.c), unless that has a name. */
	if (t->op == OP_NAME && a->name.addr >= ARENA && a->name.addr < FIELD)
		a->name.addr = 0;
}

/* Where the structure is. Returns whether the kernel can read it. */
static bool put(struct thread *t, const union arg *arg, size_t size, char **at)
{
	static const uint64_t nowhere[] = { 0, ~0ULL, 1ULL << 47, (1ULL << 47) - 32, 0xffff888000000000 };
	size_t part = 1 + below(t, size - 1);

	switch (below(t, 16)) {
	case 0:
		*at = t->args + PAGE - part;
		memcpy(*at, arg->bytes, part);
		return false;
	case 1:
		*at = (char *)PICK(t, nowhere);
		return false;
	default:
		*at = t->args + below(t, PAGE - size);
		memcpy(*at, arg->bytes, size);
		return true;
	}
}

void fuzz_ioctl(struct thread *t)
{
	enum kind on = what[t->op].on;
	int fd = on == KINDS ? export_device : pick_file(t, on), error;
	size_t size = what[t->op].size;
	bool readable;
	union arg q;
	char *at;

	make(t, &q);
	if (one_in(t, 3))
		spoil(t, &q, size);
	readable = put(t, &q, size, &at);
	error = ioctl(fd, what[t->op].cmd, at) ? errno : 0;
	called(t, error);
	if (error && readable && memcmp(at, q.bytes, size))
		bug(t, "a failed call has changed its argument");
	if (!error && !readable)
		bug(t, "success with a structure that the kernel cannot read");
	if (!error)
		memcpy(q.bytes, at, size);
	if (!error && t->op == OP_ALLOC)
		put_file(t, DM, q.alloc.fd);
	if (!error && t->op == OP_EXPORT)
		put_file(t, DMABUF, q.export.fd);
	/* No file of a BAR yet, or one of a removed BAR, which stays dead. */
	if ((error == ENOTTY || error == ENODEV) && on == BAR)
		open_bar(t);
}
