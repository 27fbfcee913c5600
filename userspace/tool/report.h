/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The lines of "iopm doctor": each is a check with its result, as text or as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>

#include "sys.h"

enum status {
	OK,
	UNKNOWN,	/* the caller lacks the permission to find out */
	WARN,
	FAIL,
};

/* Begins the report. */
void report_begin(bool json);

/* The checks after this belong to this area: a heading in text, a member in JSON. */
void report_area(const char *area);

/* Adds a check. @fix is a command that fixes it, or NULL. */
PRINTF(3, 4) void report(enum status status, const char *fix, const char *format, ...);

/* Ends the report. Returns the exit status: 1 if a check failed. */
int report_end(void);

#endif /* REPORT_H */
