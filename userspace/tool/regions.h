/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The live regions and imports, which ib_peer_mem lists for root. */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdbool.h>
#include <stdio.h>

/* A line of the file. A text may be "-": there is none. */
struct region {
	const char *process, *kind, *client, *device, *lkey, *address, *age, *state;
	int pid;
	unsigned long long length;
};

/* Opens the list; NULL with errno. */
FILE *regions_open(void);

/* Reads the next line into @line, and the region with texts in @line. Returns false at the end. */
bool regions_next(FILE *file, char line[512], struct region *region);

#endif /* REGIONS_H */
