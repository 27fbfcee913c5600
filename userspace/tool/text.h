/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Text of any bytes, such as the name of a process, in formats that are UTF-8. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>

/*
 * Prints @text in quotes. Quotes, backslashes and newlines in @text are escaped, and a byte that is
 * not UTF-8 becomes U+FFFD: the value of a label of OpenMetrics. With @control other control
 * characters are escaped too: a string of JSON.
 */
void print_quoted(const char *text, bool control);

#endif /* TEXT_H */
