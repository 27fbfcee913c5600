// SPDX-License-Identifier: GPL-2.0
/*
 * disk_remote - from the disk of one host to the disk of another, through a BAR of each host
 *
 * The disks read and write the BARs by direct I/O, and the RDMA adapters transfer the bytes between
 * the BARs. The first MEMORY is the BAR; the second MEMORY is the disk, an NVMe disk whose first -l
 * bytes are used.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actions.h"
#include "pattern.h"

typedef ssize_t (*transfer)(int disk, void *memory, size_t length, off_t at);

static ssize_t write_disk(int disk, void *memory, size_t length, off_t at)
{
	return pwrite(disk, memory, length, at);
}

/* Transfers all bytes between the memory and the start of the disk, by the DMA of the disk. */
static void disk_io(struct options *o, transfer transfer, char *memory)
{
	/* Without O_DIRECT the kernel transfers host memory, and the CPU copies. */
	int disk = open(o->memory2, O_RDWR | O_DIRECT | O_CLOEXEC);
	ssize_t got;

	if (disk < 0)
		err(1, "open %s", o->memory2);
	for (size_t done = 0; done < o->length; done += got) {
		got = transfer(disk, memory + done, o->length - done, done);
		if (got <= 0)
			err(1, "%s at %zu", o->memory2, done);
	}
	close(disk);
}

/* The pattern from MEMORY to the disk. */
static int do_fill(struct options *o)
{
	struct buffer from = buffer_map(o->memory, o->length, PROT_READ | PROT_WRITE);

	pattern_fill(from.addr, o->length, o->seed);
	disk_io(o, write_disk, from.addr);
	buffer_unmap(&from);
	return 0;
}

/* From the disk to the BAR, and from there to that of the server. */
static int do_send(struct options *o)
{
	struct buffer bar = map_zeroed(o->memory, o);
	struct ibv_mr *mr = rdma_register(&o->rdma, bar.addr, o->length);
	struct remote r;

	disk_io(o, pread, bar.addr);
	r = remote_open(o);
	if (r.length != o->length)
		errx(1, "the server's MR has %llu bytes", (unsigned long long)r.length);
	/* The completion of the read orders the disk's writes before the adapter's reads. */
	remote_must_rw(&r, IBV_WR_RDMA_WRITE, mr);
	remote_close(&r);
	report("sent", &bar, o);
	rdma_deregister(mr);
	buffer_unmap(&bar);
	return 0;
}

/* The other end of send: from the BAR to the disk, and back to the BAR, where the CPU compares. */
static int do_receive(struct options *o)
{
	struct buffer bar = map_zeroed(o->memory, o), want = host_memory(o->length);
	struct ibv_mr *mr = rdma_register(&o->rdma, bar.addr, o->length);

	remote_serve(o, mr);
	rdma_deregister(mr);
	disk_io(o, write_disk, bar.addr);
	memset(bar.addr, 0, o->length);
	disk_io(o, pread, bar.addr);
	pattern_fill(want.addr, o->length, o->seed);
	must_equal(bar.addr, want.addr, o->length, "what the disk has");
	report("received", &bar, o);
	buffer_unmap(&bar);
	return 0;
}

static void option(int letter, const char *argument)
{
	(void)letter;
	(void)argument;
}

int main(int argc, char **argv)
{
	static const struct action actions[] = {
		{ "fill", do_fill, "the pattern from MEMORY to the disk", false },
		{ "send", do_send, "from the disk through the BAR to the server", false },
		{ "receive", do_receive, "the server: from a client through the BAR to the disk",
		  false },
	};
	static const struct program program = {
		.name = "disk_remote",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "",
		.option = option,
		.help = "",
	};

	return program_run(&program, argc, argv);
}
