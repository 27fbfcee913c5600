// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RDMA WRITE and READ on one host. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actions.h"
#include "pattern.h"

struct buffer host_memory(size_t length)
{
	return buffer_map("host", length, PROT_READ | PROT_WRITE);
}

struct buffer map_zeroed(const char *path, const struct options *o)
{
	struct buffer b = buffer_map(path, o->map_length, PROT_READ | PROT_WRITE);

	/* Device memory is volatile: the compiler must not assume its contents. */
	for (size_t i = 0; i < b.length; i += 8)
		*(volatile uint64_t *)(b.addr + i) = 0;
	return b;
}

void report(const char *what, const struct buffer *b, const struct options *o)
{
	size_t after = o->map_length - o->offset - o->length;

	printf("%s offset=%#llx length=%zu seed=%llu guard=%zu\n", what,
	       (unsigned long long)buffer_bar_offset(b) + o->offset, o->length,
	       (unsigned long long)o->seed, o->offset < after ? o->offset : after);
}

void must_equal(const void *got, const void *want, size_t length, const char *what)
{
	if (memcmp(got, want, length))
		errx(1, "%s: the bytes differ from those written", what);
}

/* RDMA WRITE of a pattern from host memory, then RDMA READ of the same range. */
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

/* From one BAR to another: both ends of the transfer are device memory. */
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

/* Reads the start of the disk by the DMA of the SSD. */
static void read_disk(const char *path, char *into, size_t length)
{
	/* Without O_DIRECT the kernel reads into host memory, and the CPU copies. */
	int disk = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ssize_t got;

	if (disk < 0)
		err(1, "open %s", path);
	for (size_t done = 0; done < length; done += got) {
		got = pread(disk, into + done, length - done, done);
		if (got < 0 && errno == EREMOTEIO)
			errx(1, "%s: its driver does not take peer-to-peer memory", path);
		if (got < 0 && errno == EINVAL)
			errx(1, "%s: no route to the BAR (\"iopm nearest\"), or no whole blocks", path);
		if (got < 0)
			err(1, "pread %s", path);
		if (got == 0)
			errx(1, "%s has less than %zu bytes", path, length);
	}
	close(disk);
}

/* From an SSD through a BAR to other memory: neither through host memory, nor by the CPU. */
int do_disk(struct options *o)
{
	struct buffer bar = buffer_map(o->memory, o->map_length, PROT_READ | PROT_WRITE);
	struct buffer to = buffer_map(o->memory2, o->map_length, PROT_READ | PROT_WRITE);
	/* One mapping serves both: the SSD writes the pages, the adapter reads the memory region. */
	struct ibv_mr *bar_mr = rdma_register(&o->rdma, bar.addr + o->offset, o->length);
	struct ibv_mr *to_mr = rdma_register(&o->rdma, to.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);

	if (!o->disk)
		errx(2, "disk needs -f");
	read_disk(o->disk, bar_mr->addr, o->length);
	/* The completion of the read orders the SSD's writes before the adapter's reads. */
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, bar_mr, bar_mr->addr, to_mr, to_mr->addr, o->length);
	report("through", &bar, o);
	report("to", &to, o);

	pair_free(&p);
	rdma_deregister(to_mr);
	rdma_deregister(bar_mr);
	buffer_unmap(&to);
	buffer_unmap(&bar);
	return 0;
}
