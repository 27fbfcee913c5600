// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "text.h"

bool json_option(int argc, char **argv, bool *json)
{
	*json = argc == 2 && !strcmp(argv[1], "--json");
	return argc == 1 || *json;
}

void json_string(const char *text)
{
	print_quoted(text, true);
}

/* The open objects and arrays, from the outside. */
static struct {
	char end;
	bool used;	/* has a member or an element */
} open[8];
static int depth;

/* Prints what comes before a value. */
static void begin(const char *name)
{
	if (!depth)
		return;
	if (open[depth - 1].used)
		putchar(',');
	open[depth - 1].used = true;
	/* A line for each element of an outer list. */
	if (depth <= 2)
		putchar('\n');
	if (name) {
		json_string(name);
		putchar(':');
	}
}

void json_open(const char *name, char bracket)
{
	begin(name);
	putchar(bracket);
	open[depth].end = bracket == '{' ? '}' : ']';
	open[depth].used = false;
	depth++;
}

void json_close(void)
{
	putchar(open[--depth].end);
	if (!depth)
		putchar('\n');
}

void json_text(const char *name, const char *text)
{
	begin(name);
	if (text)
		json_string(text);
	else
		printf("null");
}

void json_number(const char *name, unsigned long long number)
{
	begin(name);
	printf("%llu", number);
}

void json_bool(const char *name, bool value)
{
	begin(name);
	printf(value ? "true" : "false");
}
