/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the sample does, and the functions that the actions share. */
#ifndef ACTIONS_H
#define ACTIONS_H

#include "buffer.h"
#include "options.h"

/* write.c */
int do_write(struct options *o);
int do_copy(struct options *o);
/* atomic.c */
int do_atomic(struct options *o);
/* remote.c, on two hosts */
int do_serve(struct options *o);
int do_remote(struct options *o);

#define SAMPLE_ACTIONS \
	{ "write", do_write, "RDMA WRITE of a pattern into MEMORY, READ back, compare", false }, \
	{ "atomic", do_atomic, "fetch-and-add and compare-and-swap on MEMORY", false }, \
	{ "copy", do_copy, "RDMA WRITE from MEMORY into a second MEMORY", false }, \
	{ "serve", do_serve, "let -n other hosts read and write MEMORY, one by one", false }, \
	{ "remote", do_remote, "RDMA WRITE from MEMORY to the server's, READ back to the second", \
	  false }

struct buffer host_memory(size_t length);
/* Maps @path and fills the mapping with zeros, so that a byte beside the MR shows. */
struct buffer map_zeroed(const char *path, const struct options *o);
/* Prints the place and the seed of the pattern, for scripts/checks/check-bar-file. */
void report(const char *what, const struct buffer *b, const struct options *o);
void must_equal(const void *got, const void *want, size_t length, const char *what);

/* A client's connection to a server, and the server's memory. */
struct remote {
	int tcp;		/* by which the queue pairs were connected */
	struct pair pair;
	uint64_t addr, length;
	uint32_t rkey;
};

/* Any failure ends the program. */
struct remote remote_open(struct options *o);
void remote_close(struct remote *r);
/* RDMA WRITE or READ of the server's whole MR. */
void remote_must_rw(struct remote *r, enum ibv_wr_opcode opcode, struct ibv_mr *mr);
/* The server: lets -n clients use the MR, one by one. */
void remote_serve(struct options *o, const struct ibv_mr *mr);
/*
 * RDMA WRITE of a pattern from MEMORY to the server's, READ back to the second MEMORY, compare. All
 * three have the same length.
 */
int remote_copy(struct options *o, struct remote *r);

#endif /* ACTIONS_H */
