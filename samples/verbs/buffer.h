/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory: a mapping of device memory, or host memory. The verbs use its address
 * alike in both cases.
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
 * Allocates and maps a range of the BAR behind the character device @path, or host
 * memory for the path "host". @prot as for mmap(2). A failure ends the program.
 */
struct buffer buffer_map(const char *path, size_t length, int prot);
void buffer_unmap(struct buffer *b);

/* Returns the offset of the buffer in the BAR; 0 for host memory. */
uint64_t buffer_bar_offset(const struct buffer *b);

#endif /* BUFFER_H */
