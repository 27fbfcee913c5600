// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

static const char *const words[] = { [OK] = "ok", [UNKNOWN] = "?", [WARN] = "warn",
				     [FAIL] = "FAIL" };
static const char *const json_words[] = { [OK] = "ok", [UNKNOWN] = "unknown", [WARN] = "warn",
					  [FAIL] = "fail" };

static struct {
	bool json;
	const char *area;
	bool headed;		/* the heading of the area is printed */
	int count[4];
} state;

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

void report_begin(bool json)
{
	memset(&state, 0, sizeof(state));
	state.json = json;
	if (json)
		printf("{\"checks\":[");
}

void report_area(const char *area)
{
	state.area = area;
	state.headed = false;
}

static void as_json(enum status status, const char *fix, const char *text)
{
	int *n = state.count;

	printf("%s\n{\"area\":", n[OK] + n[UNKNOWN] + n[WARN] + n[FAIL] ? "," : "");
	json_string(state.area);
	printf(",\"status\":\"%s\",\"text\":", json_words[status]);
	json_string(text);
	printf(",\"fix\":");
	if (fix)
		json_string(fix);
	else
		printf("null");
	putchar('}');
}

void report(enum status status, const char *fix, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (state.json) {
		as_json(status, fix, text);
	} else {
		if (!state.headed)
			printf("%s\n", state.area);
		printf("  %-4s  %s\n", words[status], text);
		if (fix)
			printf("        fix: %s\n", fix);
	}
	state.headed = true;
	state.count[status]++;
}

int report_end(void)
{
	const int *n = state.count;

	if (state.json)
		printf("\n],\"ok\":%d,\"unknown\":%d,\"warn\":%d,\"fail\":%d}\n", n[OK],
		       n[UNKNOWN], n[WARN], n[FAIL]);
	else
		printf("%d ok, %d not known, %d warnings, %d failures\n", n[OK], n[UNKNOWN],
		       n[WARN], n[FAIL]);
	return n[FAIL] ? 1 : 0;
}
