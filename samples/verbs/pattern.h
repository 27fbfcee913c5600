/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A pattern of bytes from a seed: splitmix64, little endian. scripts/checks/check-bar-file
 * generates the same on the host.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline void pattern_fill(void *to, size_t length, uint64_t seed)
{
	for (size_t done = 0; done < length; done += 8) {
		uint64_t word = htole64(splitmix64(&seed));
		size_t n = length - done < 8 ? length - done : 8;

		memcpy((char *)to + done, &word, n);
	}
}

#endif /* PATTERN_H */
