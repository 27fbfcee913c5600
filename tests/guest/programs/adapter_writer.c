// SPDX-License-Identifier: GPL-2.0

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
