// SPDX-License-Identifier: GPL-2.0

#include <dlfcn.h>
#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
