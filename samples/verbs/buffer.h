/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the memory comes from. This is the only part of the example that knows
 * about device memory; for the verbs it is an address like any other.
 */
#ifndef BUFFER_H
#define BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct buffer {
	char *addr;
	size_t length;
	int fd;			/* of the BAR's character device; -1: host memory */
};

/*
 * A range of the BAR behind the character device @path, or of host memory for
 * the path "host". @prot as for mmap(2); @at is where to map it, NULL: anywhere.
 */
struct buffer buffer_map(const char *path, size_t length, int prot, void *at);
void buffer_unmap(struct buffer *b);

/* Where in the BAR the buffer begins; 0 for host memory. */
uint64_t buffer_bar_offset(const struct buffer *b);

#endif /* BUFFER_H */
