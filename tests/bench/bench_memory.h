/* SPDX-License-Identifier: GPL-2.0 */
/* The ioctls of /dev/bench_memory. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <linux/ioctl.h>

/* Invalidates as many regions as the argument says, the newest first. */
#define BENCH_MEMORY_INVALIDATE	_IO('b', 1)
/* Unregisters the client; registers it again. */
#define BENCH_MEMORY_UNREGISTER	_IO('b', 2)
#define BENCH_MEMORY_REGISTER	_IO('b', 3)
/* Returns a dma-buf of as many entries of 64 KiB as the argument says. */
#define BENCH_MEMORY_EXPORT	_IO('b', 4)

#endif
