/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The command line: PROGRAM ACTION [option...] MEMORY [MEMORY]. Programs with the
 * same options and more actions build on this.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

struct options {
	struct rdma rdma;
	const char *memory, *memory2;	/* files to map, or "host" */
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

#endif /* OPTIONS_H */
