// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm drain: no new registrations of a function's or a client's memory, until the old ones are gone. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "pci.h"
#include "regions.h"
#include "stack.h"
#include "sys.h"

/* Memory regions are left after the time. */
#define STATUS_LEFT 3
#define FUNCTION_FILES "/sys/bus/pci/devices/%s/io_peer_mem"

struct drain {
	char name[64];
	bool is_function;
};

static struct drain find(const char *text)
{
	struct drain drain = { 0 };
	struct iopm_pci_address address;
	char function[PCI_NAME];

	if (pci_parse(text, &address)) {
		pci_format(&address, function);
		snprintf(drain.name, sizeof(drain.name), "%s", function);
		drain.is_function = true;
		if (!sys_exists(FUNCTION_FILES "/drain", function))
			errx(1, "%s is not bound to io_peer_mem; for the memory of another driver, name its "
			     "client, which \"iopm status\" shows", function);
	} else {
		snprintf(drain.name, sizeof(drain.name), "%.63s", text);
		if (strchr(text, '/') || text[0] == '.' || !sys_exists(PEERS "/%s/drain", drain.name))
			errx(1, "no client %s; \"iopm status\" lists the clients", text);
	}
	return drain;
}

static void set(const struct drain *drain, bool on)
{
	const char *text = on ? "1\n" : "0\n";
	int error = drain->is_function ? sys_write(text, FUNCTION_FILES "/drain", drain->name) :
		    sys_write(text, PEERS "/%s/drain", drain->name);

	if (error == EACCES || error == EPERM)
		errx(1, "%s: only root may drain", drain->name);
	if (error) {
		errno = error;
		err(1, "%s", drain->name);
	}
}

/*
 * Returns whether the process of a region still has a BAR of the function mapped at the address. A
 * process may have unmapped it, or have ended while a child has its memory region.
 */
static bool has_mapped(const struct region *region, const char *function)
{
	unsigned long long at = strtoull(region->address, NULL, 16), from, to;
	char line[512], bars[96], function_dir[80];
	FILE *maps = sys_open("/proc/%d/maps", region->pid);
	bool found = false;

	if (!maps)
		return false;
	snprintf(bars, sizeof(bars), "/dev/io_peer_mem/%s/", function);
	/* resourceN, p2pmem/allocate */
	snprintf(function_dir, sizeof(function_dir), "/%s/", function);
	while (!found && fgets(line, sizeof(line), maps)) {
		const char *path = strchr(line, '/');

		found = path && sscanf(line, "%llx-%llx", &from, &to) == 2 && from <= at && at < to &&
			(!strncmp(path, bars, strlen(bars)) || strstr(path, function_dir));
	}
	fclose(maps);
	return found;
}

static bool is_of(const struct drain *drain, const struct region *region)
{
	/* The device has no access to a revoked one any more. */
	if (!strcmp(region->kind, "import") || !strcmp(region->state, "revoked"))
		return false;
	if (drain->is_function)
		return !strcmp(region->client, "io_peer_mem") && has_mapped(region, drain->name);
	return !strcmp(region->client, drain->name);
}

/* Prints a memory region. */
static void print_region(const struct region *region)
{
	char size[32];

	printf("  %d %s: %s of %s, key %s, for %s s (%s)\n", region->pid, region->process,
	       size_text(region->length, size), region->device, region->lkey, region->age, region->state);
}

/*
 * Counts the memory regions that are left; with @print lists those whose process is known. A function
 * counts its own, and needs the list only for the processes.
 */
static unsigned long long look(const struct drain *drain, bool print)
{
	FILE *file = drain->is_function && !print ? NULL : regions_open();
	unsigned long long listed = 0, count;
	struct region region;
	char line[512];

	while (file && regions_next(file, line, &region)) {
		if (!is_of(drain, &region))
			continue;
		listed++;
		if (print)
			print_region(&region);
	}
	/* Unplugged, unbound or unregistered meanwhile: the files of the counters are no more. */
	if (drain->is_function ? !sys_exists(FUNCTION_FILES "/mrs", drain->name) :
				 !sys_exists(PEERS "/%s/num_alloc_mrs", drain->name))
		errx(1, "%s is gone, and its memory with it", drain->name);
	if (!drain->is_function && !file)
		err(1, DEBUGFS "/regions (without it registrations that have begun are not seen)");
	if (drain->is_function)
		count = (unsigned long long)sys_number(0, FUNCTION_FILES "/mrs", drain->name);
	else
		count = client_live(drain->name, "num_alloc_mrs", "num_dealloc_mrs", NULL);
	/* Those that are being registered are in the list, and not counted yet. */
	if (!drain->is_function && listed > count)
		count = listed;
	if (print && count > listed)
		printf("  %llu whose processes are not known%s\n", count - listed, file ?
		       ": the memory is unmapped, or the process has ended" : ": debugfs cannot be read");
	if (file)
		fclose(file);
	return count;
}

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int wait_and_report(const struct drain *drain, unsigned int seconds)
{
	uint64_t end = milliseconds() + (uint64_t)seconds * 1000;
	const struct timespec pause = { .tv_nsec = 100000000 };
	unsigned long long count;

	for (;;) {
		count = look(drain, false);
		if (!count) {
			printf("%s is drained: no memory region is left, and no new one is made until \"iopm "
			       "drain --end %s\"\n", drain->name, drain->name);
			return 0;
		}
		if (milliseconds() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	printf("%s: %llu memory regions are left after %u s:\n", drain->name, count, seconds);
	look(drain, true);
	printf("no new one is made until \"iopm drain --end %s\"\n", drain->name);
	return STATUS_LEFT;
}

int command_drain(int argc, char **argv)
{
	static const struct option options[] = {
		{ "timeout", required_argument, NULL, 't' },
		{ "end", no_argument, NULL, 'e' },
		{ 0 },
	};
	unsigned long seconds = 60;
	struct drain drain;
	bool end = false;
	char *rest;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'e') {
			end = true;
			continue;
		}
		if (c != 't' || optarg[0] < '0' || optarg[0] > '9')
			return STATUS_USAGE;
		seconds = strtoul(optarg, &rest, 10);
		if (*rest || seconds > 1000000)
			return STATUS_USAGE;
	}
	if (optind + 1 != argc)
		return STATUS_USAGE;
	drain = find(argv[optind]);
	set(&drain, !end);
	if (!end)
		return wait_and_report(&drain, (unsigned int)seconds);
	printf("%s: memory can be registered again\n", drain.name);
	return 0;
}
