// SPDX-License-Identifier: GPL-2.0
/*
 * tsc_khz - prints the frequency of this machine's time stamp counter, in kHz
 *
 * The counter of an emulated guest is that of the host. The kernel of a guest measures it against
 * an emulated timer, and on a busy machine finds a fraction: its clock is then several times too
 * fast, and all its time limits too short. scripts/qemu gives it this figure.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/* The counter and the clock at about the same time: the pair of some that were read fastest. */
static uint64_t both(uint64_t *ns)
{
	uint64_t best = UINT64_MAX, at = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t before = __rdtsc(), after;
		struct timespec t;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = __rdtsc();
		if (after - before >= best)
			continue;
		best = after - before;
		at = before + best / 2;
		*ns = t.tv_sec * 1000000000ULL + t.tv_nsec;
	}
	return at;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	uint64_t begin_ns, end_ns, begin, end;

	begin = both(&begin_ns);
	nanosleep(&pause, NULL);
	end = both(&end_ns);
	printf("%.0f\n", (end - begin) * 1e6 / (end_ns - begin_ns));
	return 0;
}
