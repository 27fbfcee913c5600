/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ACTIONS_H
#define ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"
#include "verbs.h"

struct options {
	struct rdma rdma;
	const char *memory, *memory2;	/* BAR devices, or "host" */
	uint64_t seed;
	size_t map_length;		/* of the mapping */
	size_t offset, length;		/* of the MR, from the start of the mapping */
	bool read_only;			/* map without PROT_WRITE */
	bool no_map;			/* register where nothing is mapped */
	bool unmap;			/* for forever: once it is registered */
	void *at;			/* where to map */
	int access;			/* for reg: the IBV_ACCESS_ flags */
	int count, seconds;
	const char *host, *port;	/* of the server, for two hosts */
};

/* Each is one subcommand of peer_rdma; its result is the exit status. */
int do_write(struct options *o);
int do_atomic(struct options *o);
int do_copy(struct options *o);
int do_forever(struct options *o);
int do_hold(struct options *o);
int do_reg(struct options *o);
/* On two hosts, see remote.c. */
int do_serve(struct options *o);
int do_remote(struct options *o);
int do_stream(struct options *o);

/* What they share. */
struct buffer host_memory(size_t length);
struct buffer map_zeroed(const char *path, struct options *o);
/* What scripts/check-bar-file needs to find the pattern in the BAR again. */
void report(const char *what, const struct buffer *b, struct options *o);
void must_equal(const void *got, const void *want, size_t length, const char *what);
/* RDMA WRITE of CHUNK bytes at @from, over and over; how the last, number @count, ended. */
#define CHUNK 4096
enum ibv_wc_status write_until_it_fails(struct pair *p, struct ibv_mr *from, uint32_t rkey,
					uint64_t addr, size_t length, uint64_t *count);

#endif /* ACTIONS_H */
