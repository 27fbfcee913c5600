/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the measurements share: the memory that they register, and what an operation costs, in instructions, in a guest
 * whose instructions are counted (QEMU's -icount shift=0: an instruction takes a nanosecond, and the time stamp counter
 * counts them). A failure ends the program.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

/*
 * Host memory of which the physical layout is always the same: in huge pages, of which no two
 * are adjacent in ascending order, since the kernel joins these.
 */
char *bench_host(size_t size);

/* Opens a device file; maps it. */
int bench_open(const char *path);
char *bench_map(int file, size_t size);

/*
 * Returns a dma-buf: for "dmabuf" that of the memory at @addr, by /dev/ib_peer_mem; for "table-dmabuf" that of a table
 * of bench_memory.ko. @device is that device. -1 for another target.
 */
int bench_export(const char *target, int device, void *addr, size_t size);

/* Registers memory, from its dma-buf if @dmabuf is not -1. */
struct ibv_mr *bench_register(struct rdma *rdma, int dmabuf, void *addr, size_t size);

enum bench_clock {
	BENCH_TSC,	/* all that the CPU executes meanwhile */
	BENCH_CPU,	/* CPU time of this thread and of the kernel's workers */
	BENCH_TASKS,	/* CPU time of all tasks, for operations of milliseconds */
};

void bench_clock_init(enum bench_clock clock);

/* Only one operation is measured at a time. bench_end() returns its cost. */
void bench_begin(void);
uint64_t bench_end(void);

/*
 * Sorts the @n figures of an operation and prints a row: label, target, size, operation, the usual
 * figure (the median of the half that lies closest together), least, most.
 */
void bench_row(const char *label, const char *target, size_t size, const char *operation,
	       uint64_t *figure, int n);

#endif
