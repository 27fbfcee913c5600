// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "actions.h"
#include "buffer.h"
#include "pattern.h"

#define HOST_PROT (PROT_READ | PROT_WRITE)

struct buffer host_memory(size_t length)
{
	return buffer_map("host", length, HOST_PROT, NULL);
}

/*
 * Map @path and zero the mapping, so that a byte written beside the MR shows.
 * Device memory is volatile: no compiler may think it knows what is in there.
 */
struct buffer map_zeroed(const char *path, struct options *o)
{
	struct buffer b = buffer_map(path, o->map_length, HOST_PROT, o->at);

	for (size_t i = 0; i < b.length; i += 8)
		*(volatile uint64_t *)(b.addr + i) = 0;
	return b;
}

void report(const char *what, const struct buffer *b, struct options *o)
{
	size_t after = o->map_length - o->offset - o->length;

	printf("%s offset=%#llx length=%zu seed=%llu guard=%zu\n", what,
	       (unsigned long long)buffer_bar_offset(b) + o->offset, o->length,
	       (unsigned long long)o->seed, o->offset < after ? o->offset : after);
	fflush(stdout);
}

void must_equal(const void *got, const void *want, size_t length, const char *what)
{
	if (memcmp(got, want, length))
		errx(1, "%s: the bytes are not those that were written", what);
}

/* RDMA WRITE of a pattern from host memory, RDMA READ of it back. */
int do_write(struct options *o)
{
	struct buffer from = host_memory(o->length), back = host_memory(o->length);
	struct buffer peer = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, o->length);
	struct ibv_mr *back_mr = rdma_register(&o->rdma, back.addr, o->length);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);

	pattern_fill(from.addr, o->length, o->seed);
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, from_mr, from.addr, mr, mr->addr, o->length);
	pair_must_rw(&p, IBV_WR_RDMA_READ, back_mr, back.addr, mr, mr->addr, o->length);
	must_equal(back.addr, from.addr, o->length, "RDMA READ");
	must_equal(mr->addr, from.addr, o->length, "CPU read");
	report("wrote", &peer, o);

	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(back_mr);
	rdma_deregister(from_mr);
	buffer_unmap(&peer);
	return 0;
}

/* One atomic on @target; the value before it, which it must return. */
static uint64_t atomic(struct pair *p, enum ibv_wr_opcode opcode, struct ibv_mr *result,
		       struct ibv_mr *mr, void *target, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)result->addr,
		.length = 8,
		.lkey = result->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.atomic = {
			.remote_addr = (uintptr_t)target,
			.rkey = mr->rkey,
			.compare_add = compare_add,
			.swap = swap,
		},
	};
	enum ibv_wc_status status = pair_run(p, &wr);

	if (status != IBV_WC_SUCCESS)
		errx(1, "atomic: %s", ibv_wc_status_str(status));
	return *(volatile uint64_t *)result->addr;
}

static void expect(const char *what, uint64_t got, uint64_t want)
{
	printf("%s: %#llx\n", what, (unsigned long long)got);
	if (got != want)
		errx(1, "%s: %#llx was expected", what, (unsigned long long)want);
}

/* Fetch-and-add and compare-and-swap, checked by the CPU and by RDMA READ. */
int do_atomic(struct options *o)
{
	struct buffer result = host_memory(4096), peer = map_zeroed(o->memory, o);
	struct ibv_mr *result_mr = rdma_register(&o->rdma, result.addr, 4096);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	/* Atomics want their 8 bytes aligned. */
	volatile uint64_t *word = (void *)(((uintptr_t)mr->addr + 7) & ~(uintptr_t)7);
	struct pair p = pair_make(&o->rdma);
	uint64_t seed = o->seed, start = splitmix64(&seed), add = splitmix64(&seed), v;

	*word = start;
	v = atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, result_mr, mr, (void *)word, add, 0);
	expect("fetch-and-add fetches", v, start);
	expect("fetch-and-add leaves", *word, start + add);
	v = atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, result_mr, mr, (void *)word, start, 1);
	expect("compare-and-swap of another value fetches", v, start + add);
	expect("compare-and-swap of another value leaves", *word, start + add);
	v = atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, result_mr, mr, (void *)word, start + add, seed);
	expect("compare-and-swap fetches", v, start + add);
	expect("compare-and-swap leaves", *word, seed);
	pair_must_rw(&p, IBV_WR_RDMA_READ, result_mr, result.addr, mr, (void *)word, 8);
	expect("RDMA READ gets", *(volatile uint64_t *)result.addr, seed);

	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(result_mr);
	buffer_unmap(&peer);
	return 0;
}

/* From one BAR to the other: both ends of the transfer are device memory. */
int do_copy(struct options *o)
{
	struct buffer want = host_memory(o->length);
	struct buffer from = map_zeroed(o->memory, o), to = map_zeroed(o->memory2, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr + o->offset, o->length);
	struct ibv_mr *to_mr = rdma_register(&o->rdma, to.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);

	pattern_fill(want.addr, o->length, o->seed);
	memcpy(from_mr->addr, want.addr, o->length);
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, from_mr, from_mr->addr, to_mr, to_mr->addr,
		     o->length);
	must_equal(to_mr->addr, want.addr, o->length, "CPU read of the second BAR");
	report("from", &from, o);
	report("to", &to, o);

	pair_free(&p);
	rdma_deregister(to_mr);
	rdma_deregister(from_mr);
	buffer_unmap(&to);
	buffer_unmap(&from);
	return 0;
}

static volatile sig_atomic_t stop;

static void on_sigterm(int signal)
{
	(void)signal;
	stop = 1;
}

/* Still no access, with new queue pairs, for the given time or until SIGTERM? */
static int stays_revoked(struct options *o, struct ibv_mr *local, struct ibv_mr *mr)
{
	time_t end = time(NULL) + o->seconds;
	int tries = 0;

	do {
		struct pair p = pair_make(&o->rdma);
		enum ibv_wc_status status = pair_rw(&p, IBV_WR_RDMA_WRITE, local, local->addr,
						    mr, mr->addr, local->length);

		pair_free(&p);
		if (status != IBV_WC_REM_ACCESS_ERR) {
			printf("a later write: %s\n", ibv_wc_status_str(status));
			return 1;
		}
		tries++;
		usleep(20000);
	} while (!stop && time(NULL) < end);
	printf("still revoked after %d more writes\n", tries);
	fflush(stdout);
	return 0;
}

enum ibv_wc_status write_until_it_fails(struct pair *p, struct ibv_mr *from, uint32_t rkey,
					uint64_t addr, size_t length, uint64_t *count)
{
	enum ibv_wc_status status;

	*count = 0;
	do {
		/* Every word is the counter: any write after the last one shows. */
		++*count;
		for (size_t i = 0; i < CHUNK; i += 8)
			memcpy((char *)from->addr + i, count, 8);
		status = pair_rw_key(p, IBV_WR_RDMA_WRITE, from, from->addr, rkey,
				     addr + *count % (length / CHUNK) * CHUNK, CHUNK);
		if (*count == 1 && status == IBV_WC_SUCCESS) {
			printf("running\n");
			fflush(stdout);
		}
	} while (status == IBV_WC_SUCCESS);
	printf("write %llu: %s\n", (unsigned long long)*count, ibv_wc_status_str(status));
	fflush(stdout);
	return status;
}

/*
 * Write an ever growing counter until a write fails. The memory may be taken away
 * at any moment, with the device it is in; then the application gets a remote
 * access error, never a hang, and the MR is good for nothing but ibv_dereg_mr().
 */
int do_forever(struct options *o)
{
	struct buffer from = host_memory(CHUNK);
	struct buffer peer = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, CHUNK);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);
	enum ibv_wc_status status;
	uint64_t count;
	int rc;

	if (o->length < CHUNK)
		errx(1, "the MR must have at least %d bytes", CHUNK);
	/* The MR holds the memory, as long as nobody takes it away. */
	if (o->unmap)
		buffer_unmap(&peer);
	status = write_until_it_fails(&p, from_mr, mr->rkey, (uintptr_t)mr->addr, o->length,
				      &count);
	pair_free(&p);

	signal(SIGTERM, on_sigterm);
	rc = status == IBV_WC_REM_ACCESS_ERR && count > 1 ? 0 : 1;
	if (!rc && o->seconds)
		rc = stays_revoked(o, from_mr, mr);
	rdma_deregister(mr);
	rdma_deregister(from_mr);
	printf("deregistered\n");
	return rc;
}

/* Register @count MRs, one mapping each, and sleep. */
int do_hold(struct options *o)
{
	for (int i = 0; i < o->count; i++) {
		struct buffer b = buffer_map(o->memory, o->map_length, HOST_PROT, NULL);

		rdma_register(&o->rdma, b.addr + o->offset, o->length);
	}
	printf("holding %d\n", o->count);
	fflush(stdout);
	sleep(o->seconds ? o->seconds : 3600);
	return 0;
}

/* One registration, whose errno is the result: 0 for success. */
int do_reg(struct options *o)
{
	char *addr = o->at;
	struct ibv_mr *mr;

	if (!o->no_map)
		addr = buffer_map(o->memory, o->map_length,
				  o->read_only ? PROT_READ : HOST_PROT, o->at).addr;
	mr = ibv_reg_mr(o->rdma.pd, addr + o->offset, o->length, o->access);
	printf("registration: %s\n", mr ? "ok" : strerrorname_np(errno));
	if (mr)
		rdma_deregister(mr);
	return 0;
}
