// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * disk_rdma DISK BAR MEMORY [RDMA-DEVICE [GID-INDEX]] - from an SSD through a BAR to remote memory
 *
 * The SSD reads its blocks into the BAR by direct I/O, and the RDMA adapter writes the bytes from the
 * BAR into MEMORY, which stands for the memory of another host. Neither transfer passes through host
 * memory, and the CPU does not access the bytes.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buffer.h"
#include "verbs.h"

#define LENGTH ((size_t)1 << 20)

static void usage(FILE *to)
{
	fprintf(to, "usage: disk_rdma DISK BAR MEMORY [RDMA-DEVICE [GID-INDEX]]\n"
		"Reads 1 MiB of DISK, an NVMe disk or a file on the disk, into the BAR\n"
		"(/dev/io_peer_mem/BDF/barN, \"iopm list\"), and from there into MEMORY by RDMA WRITE:\n"
		"another BAR, or \"host\". RDMA-DEVICE is rxe0 if not given, GID-INDEX 0.\n");
}

/* Reads the start of the disk by the DMA of the SSD. A failure ends the program. */
static void read_disk(const char *path, char *into)
{
	/* Without O_DIRECT the kernel reads into host memory, and the CPU copies. */
	int disk = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ssize_t got;

	if (disk < 0)
		err(1, "open %s", path);
	for (size_t done = 0; done < LENGTH; done += got) {
		got = pread(disk, into + done, LENGTH - done, done);
		if (got < 0 && errno == EREMOTEIO)
			errx(1, "%s: its driver does not take peer-to-peer memory", path);
		if (got < 0 && errno == EINVAL)
			errx(1, "%s: no route to the BAR (\"iopm nearest\"), or no whole blocks", path);
		if (got < 0)
			err(1, "pread %s", path);
		if (got == 0)
			errx(1, "%s has less than %zu bytes", path, LENGTH);
	}
	close(disk);
}

int main(int argc, char **argv)
{
	struct buffer bar, memory;
	struct ibv_mr *bar_mr, *memory_mr;
	struct rdma rdma;
	struct pair pair;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		usage(stdout);
		return 0;
	}
	if (argc < 4 || argc > 6) {
		usage(stderr);
		return 2;
	}
	bar = buffer_map(argv[2], LENGTH, PROT_READ | PROT_WRITE);
	memory = buffer_map(argv[3], LENGTH, PROT_READ | PROT_WRITE);
	rdma = rdma_open(argc > 4 ? argv[4] : "rxe0");
	rdma.gid_index = argc > 5 ? atoi(argv[5]) : 0;

	/* One mapping serves both: the SSD writes the pages, the adapter reads the memory region. */
	bar_mr = rdma_register(&rdma, bar.addr, LENGTH);
	memory_mr = rdma_register(&rdma, memory.addr, LENGTH);
	pair = pair_make(&rdma);

	read_disk(argv[1], bar.addr);
	/* The completion of the read orders the SSD's writes before the adapter's reads. */
	pair_must_rw(&pair, IBV_WR_RDMA_WRITE, bar_mr, bar.addr, memory_mr, memory.addr, LENGTH);
	printf("%zu bytes, through the BAR at %llu, to the memory at %llu\n", LENGTH,
	       (unsigned long long)buffer_bar_offset(&bar),
	       (unsigned long long)buffer_bar_offset(&memory));

	pair_free(&pair);
	rdma_deregister(memory_mr);
	rdma_deregister(bar_mr);
	rdma_close(&rdma);
	buffer_unmap(&memory);
	buffer_unmap(&bar);
	return 0;
}
