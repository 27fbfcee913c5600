// SPDX-License-Identifier: GPL-2.0

#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter_rdma.h"
#include "exporter.h"
#include "pattern.h"

/* Returns the first byte that is not of the pattern; @length: all are. */
static size_t first_wrong(const char *bytes, size_t length, uint64_t seed)
{
	char *want = malloc(length);
	size_t i = 0;

	if (!want)
		err(1, "malloc");
	pattern_fill(want, length, seed);
	while (i < length && bytes[i] == want[i])
		i++;
	free(want);
	return i;
}

static void answer_compared(const char *bytes, size_t length, uint64_t seed)
{
	size_t wrong = first_wrong(bytes, length, seed);

	if (wrong < length)
		answer("error MISMATCH at=%zu", wrong);
	else
		answer("ok length=%zu", length);
}

void transfer(enum ibv_wr_opcode opcode, uint64_t seed)
{
	char *bytes = calloc(1, it.length);
	struct ibv_mr *local;
	struct pair p;
	enum ibv_wc_status status;

	if (!bytes)
		err(1, "calloc");
	if (opcode == IBV_WR_RDMA_WRITE)
		pattern_fill(bytes, it.length, seed);
	local = rdma_register(&it.rdma, bytes, it.length);
	p = pair_make(&it.rdma);
	status = pair_rw_key(&p, opcode, local, bytes, it.keys.rkey, (uintptr_t)its_addr(), it.length);
	pair_free(&p);
	rdma_deregister(local);
	if (status != IBV_WC_SUCCESS)
		answer("error %s", ibv_wc_status_str(status));
	else if (opcode == IBV_WR_RDMA_READ)
		answer_compared(bytes, it.length, seed);
	else
		answer("ok length=%zu", it.length);
	free(bytes);
}

void look(const uint64_t *seed)
{
	char *bytes = malloc(it.length);
	uint64_t sum = 0;

	if (!bytes)
		err(1, "malloc");
	if (it.memory.gpu ? gpu_read(bytes, its_addr(), it.length) :
	    exporter_read(it.memory.control, bytes, it.length, it.memory.start + it.offset)) {
		answer_errno();
	} else if (seed) {
		answer_compared(bytes, it.length, *seed);
	} else {
		for (size_t i = 0; i < it.length; i++)
			sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3;
		answer("ok sum=%#llx", (unsigned long long)sum);
	}
	free(bytes);
}

void answer_state(int control)
{
	struct peer_test_exporter_state s;

	if (exporter_state(control, &s))
		answer_errno();
	else
		answer("ok exists=%u attached=%u mapped=%u pinned=%u moves=%llu late=%llu", s.exists,
		       s.attached, s.mapped, s.pinned, (unsigned long long)s.moves,
		       (unsigned long long)s.late);
}

struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const char *by = getenv("REG");
	struct ibv_mr *(*plain)(struct ibv_pd *, void *, size_t, int) = NULL;
	struct ibv_mr *(*iova)(struct ibv_pd *, void *, size_t, uint64_t, int) = NULL;

	if (!by)
		return ibv_reg_mr(pd, addr, length, access);
	if (!strcmp(by, "dlsym"))
		plain = dlsym(RTLD_DEFAULT, "ibv_reg_mr");
	else if (!strcmp(by, "ibv_reg_mr"))
		plain = dlvsym(RTLD_DEFAULT, by, "IBVERBS_1.1");
	else if (!strcmp(by, "iova"))
		iova = dlvsym(RTLD_DEFAULT, "ibv_reg_mr_iova", "IBVERBS_1.7");
	else
		iova = dlvsym(RTLD_DEFAULT, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	if (!plain && !iova)
		errx(1, "no function for %s", by);
	return plain ? plain(pd, addr, length, access) : iova(pd, addr, length, (uintptr_t)addr, access);
}

static volatile bool churning;

static void *churner(void *changes)
{
	while (churning) {
		if (gpu_chunk(true, 1) || gpu_chunk(false, 1))
			errx(1, "chunk 1");
		++*(unsigned long *)changes;
	}
	return NULL;
}

void churn(uint64_t times)
{
	unsigned long changes = 0, failures = 0;
	pthread_t thread;

	churning = true;
	if (pthread_create(&thread, NULL, churner, &changes))
		err(1, "pthread_create");
	for (uint64_t i = 0; i < times || changes < 20; i++) {
		struct ibv_mr *mr = ibv_reg_mr(it.rdma.pd, its_addr(), it.length, IBV_ACCESS_LOCAL_WRITE);

		if (!mr)
			failures++;
		else if (ibv_dereg_mr(mr))
			err(1, "deregistration");
	}
	churning = false;
	pthread_join(thread, NULL);
	answer("%s failures=%lu", failures ? "error" : "ok", failures);
}

void answer_rc(int rc)
{
	if (rc)
		answer_errno();
	else
		answer("ok");
}

/* Of one write, at most. Odd: writes begin and end anywhere in a page. */
#define CHUNK 5003

static struct {
	pthread_t thread;
	bool running;
	struct adapter mr;	/* when it began */
	struct ibv_mr *local;
	char *want;		/* what is in the MR */
	char *from, *back;	/* CHUNK bytes each, which follow it, in @local */
	atomic_bool stop;
	enum ibv_wc_status status;
	atomic_ullong writes;
	atomic_bool ended;
	size_t at, length;	/* of the last write */
	const char *wrong;	/* what has read other bytes than were written; NULL: nothing */
} w;

/* What is in the MR now. Returns false if the process has no mapping of the MR any more. */
static bool contents(char *bytes)
{
	/* The process cannot access revoked memory. */
	if (it.memory.control < 0)
		return !it.memory.changed && !memory_read(bytes, it.memory.addr + w.mr.offset, w.mr.length);
	if (exporter_read(it.memory.control, bytes, w.mr.length, it.memory.start + w.mr.offset))
		err(1, "exporter_read");
	return true;
}

/* One write, and all that can be seen of it. */
static bool step(struct pair *p, size_t at, size_t length)
{
	char *cpu = it.memory.addr + w.mr.offset + at;
	size_t wrong = length;

	pattern_fill(w.from, length, w.writes + 1);
	w.at = at;
	w.length = length;
	w.status = pair_rw_key(p, IBV_WR_RDMA_WRITE, w.local, w.from, w.mr.keys.rkey, (uintptr_t)cpu, length);
	if (w.status != IBV_WC_SUCCESS)
		return false;
	memcpy(w.want + at, w.from, length);
	w.writes++;
	w.status = pair_rw_key(p, IBV_WR_RDMA_READ, w.local, w.back, w.mr.keys.rkey, (uintptr_t)cpu, length);
	if (w.status != IBV_WC_SUCCESS)
		return false;
	if (memcmp(w.back, w.from, length))
		w.wrong = "RDMA";
	/*
	 * SIGBUS: it was revoked meanwhile. The next access fails. The process may see other memory after
	 * it has changed the mapping itself.
	 */
	else if (it.memory.fd >= 0 && !memory_check(cpu, length, w.writes, &wrong) && wrong < length &&
		 !it.memory.changed)
		w.wrong = "the CPU";
	return !w.wrong;
}

static void *run(void *unused)
{
	struct pair p = pair_make(&w.mr.rdma);
	size_t at = 0;

	(void)unused;
	while (!w.stop) {
		size_t length = w.mr.length - at < CHUNK ? w.mr.length - at : CHUNK;

		if (!step(&p, at, length))
			break;
		at = at + length < w.mr.length ? at + length : 0;
	}
	pair_free(&p);
	w.ended = true;
	return NULL;
}

void writer_start(void)
{
	if (w.running) {
		errno = EBUSY;
		answer_errno();
		return;
	}
	memset(&w, 0, sizeof(w));
	w.mr = it;
	w.want = calloc(1, it.length + 2 * CHUNK);
	if (!w.want)
		err(1, "calloc");
	w.from = w.want + it.length;
	w.back = w.from + CHUNK;
	w.local = rdma_register(&w.mr.rdma, w.want, it.length + 2 * CHUNK);
	/* What is there before. */
	if (!contents(w.want))
		errx(1, "the MR is not mapped");
	if ((errno = pthread_create(&w.thread, NULL, run, NULL)))
		err(1, "pthread_create");
	w.running = true;
	while (!w.writes && !w.ended)
		usleep(1000);
	answer("ok");
}

/*
 * Returns whether each byte is that of the last write of it, as far as the process can see; a write that
 * failed may have written.
 */
static bool all_there(void)
{
	char *bytes = malloc(w.mr.length);
	bool same = true, mapped;

	if (!bytes)
		err(1, "malloc");
	mapped = contents(bytes);
	for (size_t i = 0; mapped && i < w.mr.length; i++) {
		bool failed = w.status != IBV_WC_SUCCESS && i - w.at < w.length;

		if (bytes[i] != w.want[i] && !(failed && bytes[i] == w.from[i - w.at])) {
			w.at = i;
			same = false;
			break;
		}
	}
	free(bytes);
	return same;
}

void writer_stop(void)
{
	if (!w.running) {
		errno = ENOENT;
		answer_errno();
		return;
	}
	w.stop = true;
	if ((errno = pthread_join(w.thread, NULL)))
		err(1, "pthread_join");
	w.running = false;
	rdma_deregister(w.local);
	if (!w.wrong && !all_there())
		w.wrong = "the owner of the memory";
	if (w.wrong)
		answer("error MISMATCH at=%zu seen by %s after %llu writes", w.at, w.wrong, w.writes);
	else
		answer("ok writes=%llu status=%s", w.writes, ibv_wc_status_str(w.status));
	free(w.want);
}
