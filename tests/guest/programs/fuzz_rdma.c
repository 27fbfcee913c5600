// SPDX-License-Identifier: GPL-2.0
/*
 * Dma-bufs of the test exporter, and memory regions on the mappings and names, of soft RoCE or mlx5 and of
 * the test adapters.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/fs.h>

#include "exporter.h"
#include "fuzz.h"
#include "uverbs.h"
#include "verbs.h"

#define DEVICES 4
#define CONTROLS 6
#define MRS 8

static struct rdma devices[DEVICES];
static int n_devices;
static bool is_mlx5;

/* Shared by all threads: their files and MRs change at any time. */
static int controls[CONTROLS];
static struct {
	uint32_t device, handle;
} mrs[MRS];

void rdma_add(const char *name)
{
	if (n_devices == DEVICES)
		errx(2, "one device too many: %s", name);
	devices[n_devices++] = rdma_open(name);
	is_mlx5 |= !strncmp(name, "mlx5", 4);
	for (int i = 0; i < CONTROLS && !controls[i]; i++)
		controls[i] = open("/dev/peer_mem_test_exporter", O_RDWR | O_CLOEXEC);
}

bool rdma_has(enum op op)
{
	return n_devices && (op != OP_BUFFER || controls[0] >= 0);
}

/* Other threads move and revoke a new dma-buf at once. */
static int use_buffer(struct thread *t)
{
	int control = PICK(t, controls), error;
	size_t size = PAGE * (1 + below(t, 8));
	struct exported e;

	if (!one_in(t, 4))
		return (one_in(t, 16) ? exporter_revoke(control) : exporter_move(control)) ? errno : 0;
	error = exporter_make(&e, one_in(t, 8) ? "test:pin-error=95" : "test", size) ? errno : 0;
	if (!error)
		put_file(t, DMABUF, e.dmabuf);
	if (!error && dup3(e.control, control, O_CLOEXEC) < 0 && errno != EBUSY)
		bug(t, "dup3: %s", strerrorname_np(errno));
	if (e.control >= 0)
		close(e.control);
	return error;
}

/* A memory region that has been made lies in mappings that allow it. */
static void must_be_mapped(struct thread *t, uint64_t at, uint64_t length, int access)
{
	bool write = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct procmap_query q;

	if (maps < 0)
		bug(t, "maps: %s", strerrorname_np(errno));
	for (uint64_t now = at; now < at + length; now = q.vma_end) {
		q = (struct procmap_query) { .size = sizeof(q), .query_addr = now };
		if (ioctl(maps, PROCMAP_QUERY, &q))
			bug(t, "an MR of %#llx bytes at %#llx, but nothing is mapped at %#llx",
			    (unsigned long long)length, (unsigned long long)at, (unsigned long long)now);
		if (!(q.vma_flags & PROCMAP_QUERY_VMA_WRITABLE) &&
		    (write || !(q.vma_flags & PROCMAP_QUERY_VMA_READABLE)))
			bug(t, "an MR with access %#x at %#llx, where the mapping does not allow it", access,
			    (unsigned long long)now);
	}
	close(maps);
}

static uint64_t range(struct thread *t, uint64_t *length)
{
	uint64_t at = (uintptr_t)some_range(t, length), skip = one_in(t, 2) ? 0 : below(t, *length);

	*length -= skip;
	if (one_in(t, 2) && *length > PAGE)
		*length = PAGE;
	if (one_in(t, 8))
		*length = edge(t);
	/* The stock mlx5_ib warns of an empty range that begins inside a page. */
	if (!*length && is_mlx5)
		*length = 1;
	return at + skip;
}

static int some_access(struct thread *t)
{
	return one_in(t, 2) ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : below(t, 16);
}

/* By its handle, so that any thread can end an MR; the library keeps its own structure of each. */
static int dereg(int i)
{
	struct keys keys = { .handle = mrs[i].handle };

	return uverbs_dereg_mr(devices[mrs[i].device].context, &keys) ? errno : 0;
}

static int reg_mr(struct thread *t)
{
	int i = below(t, MRS), device = below(t, n_devices), access = some_access(t);
	uint64_t length, at = range(t, &length);
	bool starved = t->starved;
	struct ibv_mr *mr;

	/* uverbs needs memory for the call, and then refuses it. */
	starve(t, false);
	dereg(i);
	starve(t, starved);
	mr = ibv_reg_mr(devices[device].pd, (void *)at, length, access);
	/* Another device has imported an export of the core, which only a name can bring to an address. */
	if (!mr && errno == EBUSY && at < FIELD)
		bug(t, "EBUSY at %#llx, which has no name", (unsigned long long)at);
	if (!mr)
		return errno;
	mrs[i].device = device;
	mrs[i].handle = mr->handle;
	starve(t, false);
	/* The field has names, and changes. */
	if (at < FIELD)
		must_be_mapped(t, at, length, access);
	return 0;
}

/* An MR of any thread, which may re-register or deregister it as well. */
static int rereg_mr(struct thread *t)
{
	int i = below(t, MRS), access = some_access(t), flags = one_in(t, 8) ? below(t, 16) : 1 | below(t, 8);
	struct keys keys = { .handle = mrs[i].handle };
	const struct rdma *d = &devices[mrs[i].device];
	uint64_t length, at = range(t, &length);

	return uverbs_rereg_mr(d->context, &keys, flags, at, length, d->pd->handle, access) ? errno : 0;
}

int fuzz_rdma(struct thread *t)
{
	switch (t->op) {
	case OP_BUFFER: return use_buffer(t);
	case OP_REG_MR: return reg_mr(t);
	case OP_REREG_MR: return rereg_mr(t);
	default: return dereg(below(t, MRS));
	}
}
