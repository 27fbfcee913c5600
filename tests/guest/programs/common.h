/* SPDX-License-Identifier: GPL-2.0 */
/* System calls that several of the programs make in the same way. */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>

/* Closes a file, unless it is -1; errno stays. */
void close_quietly(int fd);

/* Has /dev/ib_peer_mem, which @control is, export memory as a dma-buf. -1: errno says why not. */
int export_range(int control, const void *addr, size_t length);

#endif /* COMMON_H */
