// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm(1): lists BARs, their free memory, and their distance from a device. */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <io_peer_mem.h>
#include <iopm.h>

#include "hint.h"

#define DEVICES "/dev/io_peer_mem"
#define MAX_BARS 256

struct bar {
	char path[64];
	char function[16];	/* its PCI address */
	struct iopm_context *context;
	bool reachable;
	uint32_t distance;
};

static struct bar bars[MAX_BARS];
static int n_bars;
static int rc;

/* --- the BARs --- */

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Finds the BARs of one function, or all; sorted by name. */
static void find_bars(const char *function)
{
	struct dirent **functions, **files;
	int n = scandir(DEVICES, &functions, visible, alphasort), m;
	struct bar *bar;
	char folder[64];

	for (int i = 0; i < n; i++) {
		if (function && strcmp(function, functions[i]->d_name))
			continue;
		snprintf(folder, sizeof(folder), DEVICES "/%.15s", functions[i]->d_name);
		m = scandir(folder, &files, visible, alphasort);
		for (int j = 0; j < m && n_bars < MAX_BARS; j++) {
			bar = &bars[n_bars++];
			snprintf(bar->path, sizeof(bar->path), "%.40s/%.15s", folder,
				 files[j]->d_name);
			snprintf(bar->function, sizeof(bar->function), "%.15s",
				 functions[i]->d_name);
		}
	}
	if (n_bars)
		return;
	warnx("no BAR%s%s", function ? " of " : "", function ? function : "");
	hint_open(ENOENT);
	exit(1);
}

static bool open_bar(struct bar *bar)
{
	int error;

	bar->context = iopm_open_device(bar->path);
	if (bar->context)
		return true;
	error = errno;
	warn("%s", bar->path);
	hint_open(error);
	rc = 1;
	return false;
}

static bool query(struct bar *bar, struct iopm_device_attr_ex *attr)
{
	if (!open_bar(bar))
		return false;
	errno = iopm_query_device_ex(bar->context, NULL, attr);
	iopm_close_device(bar->context);
	if (!errno)
		return true;
	warn("%s", bar->path);
	rc = 1;
	return false;
}

/* Returns the first line of a sysfs file of the function, or "?". */
static const char *attribute(const struct bar *bar, const char *name, char line[32])
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bar->function, name);
	f = fopen(path, "r");
	if (!f || !fgets(line, 32, f))
		strcpy(line, "?");
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return strncmp(line, "0x", 2) ? line : line + 2;
}

static const char *size(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	int unit = 0;

	while (unit < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%llu %s", (unsigned long long)bytes, units[unit]);
	return text;
}

/* --- list, info --- */

static void list(void)
{
	struct iopm_device_attr_ex attr;
	char a[32], b[32], c[32];

	find_bars(NULL);
	printf("%-36s %10s %10s %10s  %s\n", "BAR", "SIZE", "FREE", "LARGEST", "DEVICE");
	for (struct bar *bar = bars; bar < bars + n_bars; bar++) {
		if (!query(bar, &attr))
			continue;
		printf("%-36s %10s %10s %10s  ", bar->path, size(attr.max_dm_size, a),
		       size(attr.free_dm_size, b), size(attr.largest_dm_size, c));
		printf("%s:%s\n", attribute(bar, "vendor", a), attribute(bar, "device", b));
	}
}

static void info(const char *what)
{
	struct iopm_device_attr_ex attr;
	char a[32], b[32], c[32];

	if (strncmp(what, "/", 1)) {
		find_bars(what);
	} else {
		snprintf(bars[0].path, sizeof(bars[0].path), "%s", what);
		sscanf(what, DEVICES "/%15[^/]", bars[0].function);
		n_bars = 1;
	}
	for (struct bar *bar = bars; bar < bars + n_bars; bar++) {
		if (!query(bar, &attr))
			continue;
		printf("BAR:       %s\n", bar->path);
		printf("device:    %s:%s, NUMA node %s\n", attribute(bar, "vendor", a),
		       attribute(bar, "device", b), attribute(bar, "numa_node", c));
		printf("size:      %llu\n", (unsigned long long)attr.max_dm_size);
		printf("free:      %llu\n", (unsigned long long)attr.free_dm_size);
		printf("largest:   %llu\n", (unsigned long long)attr.largest_dm_size);
		printf("page size: %llu\n", (unsigned long long)attr.dm_page_size);
	}
}

/* --- nearest --- */

struct address {
	unsigned int domain, bus, slot, function;
};

static bool is_address(const char *text, struct address *a)
{
	int end = 0;

	a->domain = 0;
	if (sscanf(text, "%x:%x:%x.%x%n", &a->domain, &a->bus, &a->slot, &a->function, &end) == 4 &&
	    !text[end])
		return true;
	a->domain = 0;
	return sscanf(text, "%x:%x.%x%n", &a->bus, &a->slot, &a->function, &end) == 3 &&
	       !text[end];
}

/* Finds the PCI function of a device of this class. */
static bool is_device(const char *class, const char *name, struct address *a)
{
	char link[PATH_MAX], path[PATH_MAX], *last;

	snprintf(link, sizeof(link), "/sys/class/%s/%s/device", class, name);
	if (!realpath(link, path))
		return false;
	while ((last = strrchr(path, '/'))) {
		if (is_address(last + 1, a))
			return true;
		*last = 0;
	}
	return false;
}

static int by_distance(const void *left, const void *right)
{
	const struct bar *a = left, *b = right;

	if (a->reachable != b->reachable)
		return a->reachable ? -1 : 1;
	return a->distance < b->distance ? -1 : a->distance > b->distance;
}

static void query_nearest(struct bar *bar, const struct address *a, struct io_peer_mem_nearest *arg)
{
	*arg = (struct io_peer_mem_nearest){
		.version = IO_PEER_MEM_NEAREST_VERSION,
		.domain = a->domain,
		.address = a->bus << 8 | a->slot << 3 | a->function,
	};
	if (ioctl(bar->context->cmd_fd, IO_PEER_MEM_IOC_NEAREST, arg)) {
		if (errno == ENXIO)
			errx(1, "no PCI function %04x:%02x:%02x.%x", a->domain, a->bus,
			     a->slot, a->function);
		err(1, "%s", bar->path);
	}
	bar->reachable = arg->flags & IO_PEER_MEM_NEAREST_HERE;
	bar->distance = arg->distance;
}

static void nearest(const char *device)
{
	struct io_peer_mem_nearest arg = { 0 };
	struct address a;
	char best[32];

	if (!is_address(device, &a) && !is_device("infiniband", device, &a) &&
	    !is_device("net", device, &a))
		errx(1, "%s is neither a PCI address nor an RDMA or network device with one\n"
		     "  (a software device has no distance: the CPU copies)", device);
	find_bars(NULL);
	for (struct bar *bar = bars; bar < bars + n_bars; bar++)
		if (open_bar(bar))
			query_nearest(bar, &a, &arg);
	qsort(bars, n_bars, sizeof(bars[0]), by_distance);
	printf("%-10s %s\n", "DISTANCE", "BAR");
	for (struct bar *bar = bars; bar < bars + n_bars; bar++) {
		if (!bar->context)
			continue;
		if (bar->reachable)
			printf("%-10u %s\n", bar->distance, bar->path);
		else
			printf("%-10s %s\n", "no way", bar->path);
	}
	if (!(arg.flags & IO_PEER_MEM_NEAREST_FOUND))
		return;
	/* Other drivers publish peer-to-peer memory too, such as nvme. */
	snprintf(best, sizeof(best), "%04x:%02x:%02x.%x", arg.provider_domain,
		 arg.provider_address >> 8, arg.provider_address >> 3 & 31, arg.provider_address & 7);
	for (struct bar *bar = bars; bar < bars + n_bars; bar++)
		if (!strcmp(bar->function, best))
			return;
	printf("nearest memory of another driver: %s at %u\n", best, arg.provider_distance);
}

/* --- the command line --- */

static void usage(FILE *to)
{
	fprintf(to, "usage: iopm list             list the BARs that io_peer_mem serves, and their free\n"
		"                             memory\n"
		"       iopm info BAR         show one BAR, /dev/io_peer_mem/BDF/barN, or all BARs\n"
		"                             of a function by its BDF (0000:03:00.0)\n"
		"       iopm nearest DEVICE   show the distance of each BAR from an RDMA or network\n"
		"                             device, or from the function at a PCI address\n"
		"       iopm --help           show this text; see also iopm(1)\n");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "--help") || !strcmp(what, "-h") || !strcmp(what, "help"))
		usage(stdout);
	else if (!strcmp(what, "list") && argc == 2)
		list();
	else if (!strcmp(what, "info") && argc == 3)
		info(argv[2]);
	else if (!strcmp(what, "nearest") && argc == 3)
		nearest(argv[2]);
	else {
		usage(stderr);
		return 2;
	}
	return rc;
}
