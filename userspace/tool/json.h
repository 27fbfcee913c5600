/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Prints JSON. A function with a @name prints a member of an object; a NULL name is for an element
 * of an array and for the outermost value.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>

/* Parses a command line whose only option is --json. Returns false if it is wrong. */
bool json_option(int argc, char **argv, bool *json);

/* Prints a string with its quotes. A byte that is not UTF-8 becomes U+FFFD. */
void json_string(const char *text);

/* Begins an object or an array: @bracket is '{' or '['. Objects and arrays nest 8 deep at most. */
void json_open(const char *name, char bracket);

/* Ends the innermost object or array; the line as well if it is the outermost. */
void json_close(void);

/* Prints a string, or null if @text is NULL. */
void json_text(const char *name, const char *text);

void json_number(const char *name, unsigned long long number);

void json_bool(const char *name, bool value);

#endif /* JSON_H */
