// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdint.h>
#include <stdio.h>

#include "text.h"

/* Returns the length of the character of UTF-8 at @text, or 0 if it is none. */
static int utf8_length(const char *text)
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

void print_quoted(const char *text, bool control)
{
	putchar('"');
	while (*text) {
		int length = utf8_length(text);

		/* Names of files and processes may be any bytes, and a long text is cut. */
		if (!length)
			fputs("\xef\xbf\xbd", stdout);
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", stdout);
		else if (control && (unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			fwrite(text, 1, (size_t)length, stdout);
		text += length ? length : 1;
	}
	putchar('"');
}
