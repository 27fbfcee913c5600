/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an operation costs, in instructions, in a guest whose instructions are counted (QEMU's
 * -icount shift=0: an instruction takes a nanosecond, and the time stamp counter counts them).
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stddef.h>
#include <stdint.h>

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
