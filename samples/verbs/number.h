/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef NUMBER_H
#define NUMBER_H

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Parses a number of the command line, decimal or 0x...; false: @text is not a number. */
static inline bool parse_number(const char *text, uint64_t *n)
{
	char *end;

	if (!text)
		return false;
	errno = 0;
	*n = strtoull(text, &end, 0);
	return end != text && !*end && !errno;
}

/* Returns the number; anything else ends the program. */
static inline uint64_t must_number(const char *text)
{
	uint64_t n;

	if (!parse_number(text, &n))
		errx(2, "not a number: %s", text);
	return n;
}

#endif /* NUMBER_H */
