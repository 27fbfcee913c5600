/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the sample does: PROGRAM ACTION [option...] MEMORY [MEMORY]. Programs with the same options and more
 * actions build on this. A failure of a function ends the program.
 */
#ifndef ACTIONS_H
#define ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

/* --- options.c --- */

struct options {
	struct rdma rdma;
	const char *memory, *memory2;	/* files to map, or "host" */
	const char *disk;
	uint64_t seed;
	size_t map_length;		/* of the mapping */
	size_t offset, length;		/* of the MR, from the start of the mapping */
	int count;
	const char *host, *port;	/* of the server, for two hosts */
};

/* One ACTION; its result is the exit status. */
struct action {
	const char *name;
	int (*run)(struct options *o);
	const char *help;
	bool any_range;			/* the MR may exceed the mapping */
};

struct program {
	const char *name;
	const struct action *actions;
	size_t n_actions;
	/* Options of this program alone, as for getopt(3), and their usage text. */
	const char *letters;
	void (*option)(int letter, const char *argument);
	const char *help;
};

/* Parses the command line, opens the RDMA device and runs the action. */
int program_run(const struct program *p, int argc, char **argv);

int do_write(struct options *o);
int do_copy(struct options *o);
int do_disk(struct options *o);
int do_atomic(struct options *o);
int do_serve(struct options *o);
int do_remote(struct options *o);

#define SAMPLE_ACTIONS \
	{ "write", do_write, "RDMA WRITE of a pattern into MEMORY, READ back, compare", false }, \
	{ "atomic", do_atomic, "fetch-and-add and compare-and-swap on MEMORY", false }, \
	{ "copy", do_copy, "RDMA WRITE from MEMORY into a second MEMORY", false }, \
	{ "disk", do_disk, "the same, of what an SSD (-f) reads into MEMORY", false }, \
	{ "serve", do_serve, "let -n other hosts read and write MEMORY, one by one", false }, \
	{ "remote", do_remote, "RDMA WRITE from MEMORY to the server's, READ back to the second", \
	  false }

/* --- buffer.c: a mapping of device memory, or host memory; the verbs use its address alike --- */

struct buffer {
	char *addr;
	size_t length;
	int fd;			/* of the BAR's character device; -1: host memory */
};

/* Allocates and maps a range of the BAR behind @path, or host memory for "host". @prot as for mmap(2). */
struct buffer buffer_map(const char *path, size_t length, int prot);
void buffer_unmap(struct buffer *b);

/* Returns the offset of the buffer in the BAR; 0 for host memory. */
uint64_t buffer_bar_offset(const struct buffer *b);

/* --- write.c: one host --- */

struct buffer host_memory(size_t length);
/* Maps @path and fills the mapping with zeros, so that a byte beside the MR shows. */
struct buffer map_zeroed(const char *path, const struct options *o);
/* Prints the place and the seed of the pattern, for scripts/checks/check-bar-file. */
void report(const char *what, const struct buffer *b, const struct options *o);
void must_equal(const void *got, const void *want, size_t length, const char *what);

/* --- remote.c: a client's connection to a server, and the server's memory --- */

struct remote {
	int tcp;		/* by which the queue pairs were connected */
	struct pair pair;
	uint64_t addr, length;
	uint32_t rkey;
};

struct remote remote_open(struct options *o);
void remote_close(struct remote *r);

#endif /* ACTIONS_H */
