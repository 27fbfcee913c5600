// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls of /dev/ib_peer_mem: exports and names. What is valid, and what the kernel must
 * answer, is computed here independently of it, from ioctl.rst.
 */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuzz_ioctl.h"

/* Addresses to name, at which there is no memory. */
#define NAMED 0x100000000000ULL
#define NAMED_PAGES 16

void unname_all(void)
{
	struct ib_peer_mem_name all = { .version = IB_PEER_MEM_NAME_VERSION, .length = 1ULL << 62 };

	while (!ioctl(export_device, IB_PEER_MEM_IOC_UNNAME, &all))
		;
}

void control_make(struct thread *t, enum op op, union arg *a)
{
	const struct held *h = one_in(t, 4) ? NULL : pick_held(t);

	switch (op) {
	case OP_EXPORT:
		a->export.addr = h ? (uintptr_t)h->addr + below(t, h->length) / PAGE * PAGE :
				 (uintptr_t)arena_any(t);
		a->export.length = one_in(t, 6) ? edge(t) : PAGE * (1 + below(t, 2));
		a->export.fd = below(t, 20);
		break;
	case OP_NAME:
		a->name.addr = NAMED + PAGE * below(t, NAMED_PAGES);
		a->name.length = PAGE * (1 + below(t, 2));
		a->name.offset = one_in(t, 4) ? PAGE : 0;
		a->name.fd = pick_shared(t);
		break;
	case OP_UNNAME:
		if (one_in(t, 2)) {
			a->name.flags = IB_PEER_MEM_UNNAME_DMABUF;
			a->name.fd = pick_shared(t);
			break;
		}
		a->name.addr = NAMED + PAGE * below(t, NAMED_PAGES);
		a->name.length = PAGE * (1 + below(t, 4));
		break;
	default:
		a->name.addr = NAMED + below(t, PAGE * NAMED_PAGES);
		break;
	}
}

static bool is_shared(int fd)
{
	for (int i = 0; i < SHARED_FILES; i++)
		if (shared[i] == fd)
			return true;
	return false;
}

void control_spare_fields(union arg *a)
{
	if (a->name.addr < FIELDS_END &&
	    (a->name.addr >= FIELDS_START || a->name.length > FIELDS_START - a->name.addr))
		a->name.length = 0;
	/* No file has a number beyond the limit; the first three are no dma-bufs. */
	if (a->name.fd > 2 && a->name.fd < sysconf(_SC_OPEN_MAX) && !is_shared(a->name.fd))
		a->name.fd = -1;
}

/* Ranges are rounded up to pages. */
static bool wraps(uint64_t addr, uint64_t length)
{
	return addr + length < length || addr + length > UINT64_MAX - (PAGE - 1);
}

bool control_right(enum op op, const union arg *a)
{
	uint32_t flags = op == OP_UNNAME ? IB_PEER_MEM_UNNAME_DMABUF : 0;

	if (a->words[0] != 1 || a->words[1] & ~flags)
		return false;
	if (op == OP_EXPORT)
		return !a->export.pad && a->export.length && a->export.addr % PAGE == 0 &&
		       a->export.length % PAGE == 0 &&
		       a->export.addr + a->export.length >= a->export.length &&
		       zero(a->export.reserved, sizeof(a->export.reserved));
	if (a->name.pad || !zero(a->name.reserved, sizeof(a->name.reserved)))
		return false;
	if (op == OP_QUERY)
		return !wraps(a->name.addr, 1);
	if (op == OP_UNNAME && a->name.flags)
		return !a->name.addr && !a->name.length && !a->name.offset;
	if (!a->name.length || wraps(a->name.addr, a->name.length))
		return false;
	if (op == OP_UNNAME)
		return !a->name.offset;
	return (a->name.addr | a->name.length | a->name.offset) % PAGE == 0 &&
	       a->name.offset + a->name.length >= a->name.length;
}

void control_answered(struct thread *t, enum op op, const union arg *q, const union arg *a)
{
	switch (op) {
	case OP_EXPORT:
		if (a->export.fd < 0 || a->export.length != q->export.length)
			bug(t, "export: fd %d", a->export.fd);
		dup3(a->export.fd, pick_shared(t), O_CLOEXEC);
		close(a->export.fd);
		break;
	case OP_QUERY:
		if (q->name.addr < a->name.addr || q->name.addr - a->name.addr >= a->name.length ||
		    (a->name.addr | a->name.length | a->name.offset) % PAGE || a->name.pad ||
		    !zero(a->name.reserved, sizeof(a->name.reserved)))
			bug(t, "query: %#llx bytes at %#llx", a->name.length, a->name.addr);
		break;
	default:
		break;
	}
}
