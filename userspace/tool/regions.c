// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm regions: which process has registered which memory of which client. */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "regions.h"
#include "stack.h"
#include "sys.h"

#define COLUMNS 10

FILE *regions_open(void)
{
	return sys_open(DEBUGFS "/regions");
}

bool regions_next(FILE *file, char line[512], struct region *region)
{
	while (fgets(line, 512, file)) {
		char *rest = line, *column[COLUMNS] = { NULL }, *end;
		int count = 0;
		long pid;

		line[strcspn(line, "\n")] = 0;
		while (count < COLUMNS && (column[count] = strsep(&rest, "\t")))
			count++;
		pid = strtol(column[0], &end, 10);
		/* The first line has the names of the columns. */
		if (count < COLUMNS || *end || !*column[0])
			continue;
		*region = (struct region){
			.pid = (int)pid,
			.process = column[1],
			.kind = column[2],
			.client = column[3],
			.device = column[4],
			.lkey = column[5],
			.address = column[6],
			.length = strtoull(column[7], NULL, 10),
			.age = column[8],
			.state = column[9],
		};
		return true;
	}
	return false;
}

static const char *or_null(const char *text)
{
	return strcmp(text, "-") ? text : NULL;
}

static void print_json(const struct region *region)
{
	json_open(NULL, '{');
	json_number("pid", (unsigned long long)region->pid);
	json_text("process", region->process);
	json_text("kind", region->kind);
	json_text("client", region->client);
	json_text("device", or_null(region->device));
	/* 64 bits do not fit into a number of every reader of JSON. */
	json_text("lkey", or_null(region->lkey));
	json_text("address", region->address);
	json_number("length", region->length);
	json_number("age", strtoull(region->age, NULL, 10));
	json_text("state", region->state);
	json_close();
}

static void print_row(const struct region *region)
{
	char size[32];

	printf("%8d %-15s %-6s %-16s %-12s %-10s %-18s %10s %12s %s\n", region->pid, region->process,
	       region->kind, region->client, region->device, region->lkey, region->address,
	       size_text(region->length, size), region->age, region->state);
}

int command_regions(int argc, char **argv)
{
	struct region region;
	char line[512];
	FILE *file;
	bool json;

	if (!json_option(argc, argv, &json))
		return STATUS_USAGE;
	file = regions_open();
	if (!file) {
		if (errno == ENOENT && !module_loaded("ib_peer_mem"))
			warnx("ib_peer_mem is not loaded: modprobe ib_peer_mem");
		else
			warn("%s (for root, with debugfs mounted)", DEBUGFS "/regions");
		return 1;
	}
	if (json) {
		json_open(NULL, '{');
		json_open("regions", '[');
	} else {
		printf("%8s %-15s %-6s %-16s %-12s %-10s %-18s %10s %12s %s\n", "PID", "PROCESS", "KIND",
		       "CLIENT", "DEVICE", "LKEY", "ADDRESS", "LENGTH", "AGE (s)", "STATE");
	}
	while (regions_next(file, line, &region)) {
		if (json)
			print_json(&region);
		else
			print_row(&region);
	}
	fclose(file);
	if (json) {
		json_close();
		json_close();
	}
	return 0;
}
