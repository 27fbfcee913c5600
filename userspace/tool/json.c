// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

bool json_option(int argc, char **argv, bool *json)
{
	*json = argc == 2 && !strcmp(argv[1], "--json");
	return argc == 1 || *json;
}

int utf8_length(const char *text)
{
	/* The smallest character of each length: longer forms of smaller ones are not valid. */
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)*text;
	int length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 :
		     first >> 3 == 30 ? 4 : 0;
	uint32_t code = length > 1 ? first & 0x7f >> length : first;

	for (int i = 1; i < length; i++) {
		/* The end of the text is no such byte. */
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (!length || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

void json_string(const char *text)
{
	putchar('"');
	while (*text) {
		int length = utf8_length(text);

		/* Names of files and processes may be any bytes, and a long text is cut. */
		if (!length)
			printf("\\ufffd");
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			fwrite(text, 1, (size_t)length, stdout);
		text += length ? length : 1;
	}
	putchar('"');
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
