/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ACTIONS_H
#define ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

struct options {
	struct rdma rdma;
	const char *memory, *memory2;	/* BAR devices, or "host" */
	uint64_t seed;
	size_t map_length;		/* of the mapping */
	size_t offset, length;		/* of the MR, from the start of the mapping */
	bool read_only;			/* map without PROT_WRITE */
	bool no_map;			/* register where nothing is mapped */
	void *at;			/* where to map */
	int access;			/* for reg: the IBV_ACCESS_ flags */
	int count, seconds;
};

/* Each is one subcommand of peer_rdma; its result is the exit status. */
int do_write(struct options *o);
int do_atomic(struct options *o);
int do_copy(struct options *o);
int do_forever(struct options *o);
int do_hold(struct options *o);
int do_reg(struct options *o);

#endif /* ACTIONS_H */
