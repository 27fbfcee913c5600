// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
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
