// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions on the mappings, and transfers between them over loop-back.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/fs.h>

#include "fuzz.h"
#include "pattern.h"
#include "uverbs.h"

#define TRANSFER (2 * PAGE)	/* bytes at the most */

static const int errnos[] = { EINVAL, EFAULT, ENOMEM, EOPNOTSUPP, ENODEV, EACCES, EPERM,
			      EREMOTEIO, 0 };
/* Of a limit on RDMA objects; of an RDMA device that is removed, as ib_uverbs says it. */
static const int unsteady_errnos[] = { EINVAL, EFAULT, ENOMEM, EOPNOTSUPP, ENODEV, EACCES, EPERM,
				       EREMOTEIO, EAGAIN, EIO, 0 };

void rdma_begin(struct thread *t)
{
	t->hunger = -1;
	if (hungry)
		t->hunger = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	if (hungry && t->hunger < 0)
		bug(t, "no fault injection: %s", strerrorname_np(errno));
}

void starve(struct thread *t, bool on)
{
	if (!hungry || t->starved == on)
		return;
	/* Before the write that turns it on. */
	t->starved = on;
	if (pwrite(t->hunger, on ? "1" : "0", 1, 0) != 1)
		bug(t, "fault injection: %s", strerrorname_np(errno));
}

void dereg(struct thread *t, struct ibv_mr **mr)
{
	time_t end = time(NULL) + 20;
	int error;

	if (!*mr)
		return;
	/* uverbs needs memory for the call, and then refuses it. */
	starve(t, false);
	/* Another thread re-registers it. The handle has no object while one takes the place of another. */
	while ((error = ibv_dereg_mr(*mr)) == EBUSY || (error == ENOENT && time(NULL) < end))
		sched_yield();
	/* ib_uverbs has deregistered it with the device. */
	if (error && !(unsteady && error == EIO))
		bug(t, "ibv_dereg_mr: %s", strerrorname_np(error));
	*mr = NULL;
}

void mrs_free(struct thread *t)
{
	for (int i = 0; i < MRS; i++)
		dereg(t, &t->mrs[i]);
}

/* What lies at an address. */
struct place {
	char *end;		/* of the mapping */
	bool readable, writable;
	bool peer;		/* device memory */
	const struct held *held;	/* NULL: not known */
};

static bool look(int maps, struct thread *t, char *at, struct place *p)
{
	char name[1024] = "";
	struct procmap_query query = {
		.size = sizeof(query),
		.query_addr = (uintptr_t)at,
		.vma_name_addr = (uintptr_t)name,
		.vma_name_size = sizeof(name),
	};

	*p = (struct place) { 0 };
	if (ioctl(maps, PROCMAP_QUERY, &query))
		return false;
	p->end = (char *)(uintptr_t)query.vma_end;
	p->readable = query.vma_flags & PROCMAP_QUERY_VMA_READABLE;
	p->writable = query.vma_flags & PROCMAP_QUERY_VMA_WRITABLE;
	p->peer = strstr(name, "io_peer_mem");
	for (const struct held *h = t->held; h < t->held + HELD; h++)
		if (h->length && h->addr <= at && at < h->addr + h->length)
			p->held = h;
	return true;
}

/* A memory region that has been made lies in mappings that allow it, all of host memory or of one BAR. */
static void must_be_mapped(struct thread *t, char *at, uint64_t length, int access)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	bool write = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_ATOMIC);
	struct place first = { 0 }, p;

	if (maps < 0)
		bug(t, "maps: %s", strerrorname_np(errno));
	for (char *now = at; now < at + length; now = p.end) {
		if (!look(maps, t, now, &p))
			bug(t, "an MR of %#llx bytes at %p, but nothing is mapped at %p",
			    (unsigned long long)length, at, now);
		if (now == at)
			first = p;
		if (write ? !p.writable : !p.readable && !p.writable)
			bug(t, "an MR with access %#x at %p, where the mapping does not allow it",
			    access, now);
		if (p.peer != first.peer)
			bug(t, "an MR of device memory and other memory, at %p and %p", at, now);
		if (p.peer && p.held && first.held &&
		    (p.held->bar != first.held->bar || p.held->node != first.held->node))
			bug(t, "an MR across two BARs, at %p and %p", at, now);
	}
	close(maps);
}

/* A range, mostly of a mapping, whose length in host memory is limited: pinning is slow. */
static void range(struct thread *t, char **at, uint64_t *length)
{
	piece(t, at, length);
	if (one_in(t, 2)) {
		uint64_t offset = below(t, PAGE);

		*at += offset;
		*length -= offset;
	}
	if (one_in(t, 6))
		*length = edge(t);
	if (*length > 64 * PAGE && in_arena(t, *at, *length))
		*length = PAGE;
	/* The stock mlx5_ib warns of an empty range that begins inside a page. */
	if (pd_imports && !*length)
		*length = 1;
}

static int some_access(struct thread *t)
{
	return one_in(t, 2) ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : below(t, 16);
}

static void reg_mr(struct thread *t)
{
	int i = below(t, MRS), access = some_access(t);
	struct ibv_mr **mr = &t->mrs[i];
	bool starved = t->starved;
	uint64_t length;
	char *at;

	if (!mr_pd)
		return;
	dereg(t, mr);
	starve(t, starved);
	range(t, &at, &length);
	*mr = ibv_reg_mr(mr_pd, at, length, access);
	called(t, OP_REG_MR, *mr ? 0 : errno, unsteady ? unsteady_errnos : errnos);
	if (!*mr)
		return;
	t->handles[i] = (*mr)->handle;
	starve(t, false);
	must_be_mapped(t, at, length, access);
	starve(t, starved);
}

/* An MR of any thread, which may re-register or deregister it as well. */
static void rereg_mr(struct thread *t)
{
	static const int allowed[] = { EINVAL, EFAULT, ENOMEM, EOPNOTSUPP, ENODEV, EACCES, EPERM,
				       EREMOTEIO, EBUSY, ENOENT, EAGAIN, EIO, 0 };
	struct keys keys = { .handle = any_thread(t)->handles[below(t, MRS)] };
	int access = some_access(t), flags = one_in(t, 8) ? below(t, 16) : 1 | below(t, 8);
	uint64_t length;
	char *at;

	if (!mr_pd)
		return;
	range(t, &at, &length);
	called(t, OP_REREG_MR,
	       uverbs_rereg_mr(mr_pd->context, &keys, flags, (uintptr_t)at, length, mr_pd->handle,
			       access) ? errno : 0, allowed);
}

/* Whether a request may end so if its memory is revoked. */
static bool may_end(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_LOC_PROT_ERR ||
	       status == IBV_WC_REM_OP_ERR || status == IBV_WC_WR_FLUSH_ERR;
}

/* Posts an RDMA WRITE and waits for its end. Returns an errno; ECONNABORTED: see @status. */
static int write_bytes(struct thread *t, struct ibv_mr *near, char *from, struct ibv_mr *far,
		       char *to, uint32_t n, enum ibv_wc_status *status)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from, .length = n, .lkey = near->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = far->rkey },
	};
	time_t end = time(NULL) + 20;
	struct ibv_wc wc;
	int error = ibv_post_send(t->pair.near, &wr, &bad);

	if (error)
		return error;
	while (!(error = ibv_poll_cq(t->pair.cq, 1, &wc))) {
		if (time(NULL) <= end)
			continue;
		/* A removed device completes nothing. */
		if (unsteady)
			return EIO;
		bug(t, "a transfer does not end");
	}
	if (error < 0)
		bug(t, "ibv_poll_cq: %d", error);
	*status = wc.status;
	return wc.status == IBV_WC_SUCCESS ? 0 : ECONNABORTED;
}

/*
 * The queue pairs are in an error state. Those of a device that may be removed stay: the
 * process ends with no others, and the kernel frees them.
 */
static void renew_pair(struct thread *t)
{
	t->paired = !unsteady;
	if (t->paired) {
		pair_free(&t->pair);
		t->pair = pair_make(rdma);
	}
}

/*
 * Writes by RDMA from one half of a mapping to the other. The bytes must arrive, unless
 * the device of the memory or the RDMA device is being removed.
 */
static void transfer(struct thread *t)
{
	const struct held *h = pick_held(t);
	char sent[TRANSFER], seen[TRANSFER], *from, *to;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct ibv_mr *near = NULL, *far = NULL;
	uint64_t half, n, seed = any(t);
	int error = 0;

	if (!pd || !t->paired || !h)
		return;
	half = h->length / 2;
	n = 1 + below(t, half < TRANSFER ? half : TRANSFER);
	from = h->addr + below(t, half - n + 1);
	to = h->addr + half + below(t, half - n + 1);
	pattern_fill(sent, n, seed);
	/* It may be mapped for reading, or its device gone. */
	if (!copy_guarded(from, sent, n) || !touch(to, true))
		error = EFAULT;
	if (!error && !(near = ibv_reg_mr(pd, from, n, ACCESS_ALL)))
		error = errno;
	if (!error && !(far = ibv_reg_mr(pd, to, n, ACCESS_ALL)))
		error = errno;
	if (!error) {
		error = write_bytes(t, near, from, far, to, n, &status);
		if (error)
			renew_pair(t);
	}
	dereg(t, &near);
	dereg(t, &far);
	if (error == ECONNABORTED) {
		if (!may_end(status))
			bug(t, "a transfer ended with: %s", ibv_wc_status_str(status));
		if (!unsteady && touch(from, false) && touch(to, false))
			bug(t, "a transfer failed, but its memory is there");
		called(t, OP_TRANSFER, error, ONE_OF(ECONNABORTED));
		return;
	}
	if (!error && copy_guarded(seen, to, n) && memcmp(seen, sent, n))
		bug(t, "%llu bytes did not arrive", (unsigned long long)n);
	called(t, OP_TRANSFER, error, unsteady ? unsteady_errnos : errnos);
}

void fuzz_rdma(struct thread *t, enum op op)
{
	if (op == OP_REG_MR)
		reg_mr(t);
	else if (op == OP_REREG_MR)
		rereg_mr(t);
	else
		transfer(t);
}
