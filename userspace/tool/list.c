// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm list, info, nearest: the memory, and its distance from a device. */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iopm.h>

#include "commands.h"
#include "hint.h"
#include "json.h"
#include "stack.h"
#include "sys.h"

const char *size_text(uint64_t bytes, char text[32])
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

/* Queries a BAR; on failure prints the cause. */
static bool query(const char *path, struct iopm_device_attr_ex *attr)
{
	struct iopm_context *context = iopm_open_path(path);
	int error = errno;

	if (context) {
		error = iopm_query_device_ex(context, NULL, attr);
		iopm_close_device(context);
		if (!error)
			return true;
	}
	errno = error;
	warn("%s", path);
	hint_open(error);
	return false;
}

/* @largest: UINT64_MAX if it is not known. */
static void json_memory(const struct memory *memory, uint64_t size, uint64_t free, uint64_t largest)
{
	const struct pci_function *function = &memory->function;
	char text[128];

	json_open(NULL, '{');
	json_text("name", memory->name);
	json_text("path", memory->path[0] ? memory->path : NULL);
	json_text("kind", memory->kind == MEMORY_BAR ? "bar" : "p2pmem");
	json_text("function", function->name);
	snprintf(text, sizeof(text), "%04x:%04x", function->vendor, function->device);
	json_text("id", text);
	json_text("description", pci_describe(function, text, sizeof(text)));
	json_text("driver", function->driver[0] ? function->driver : NULL);
	json_number("size", size);
	json_number("free", free);
	if (largest == UINT64_MAX)
		json_text("largest", NULL);
	else
		json_number("largest", largest);
	json_close();
}

static int list_bar(const struct memory *memory, bool json)
{
	struct iopm_device_attr_ex attr;
	char a[32], b[32], c[32], name[128];

	if (!query(memory->path, &attr))
		return 1;
	if (json) {
		json_memory(memory, attr.max_dm_size, attr.free_dm_size, attr.largest_dm_size);
		return 0;
	}
	printf("%-36s %10s %10s %10s  %04x:%04x  %s\n", memory->path, size_text(attr.max_dm_size, a),
	       size_text(attr.free_dm_size, b), size_text(attr.largest_dm_size, c),
	       memory->function.vendor, memory->function.device,
	       pci_describe(&memory->function, name, sizeof(name)));
	return 0;
}

/* Memory that the driver of the function offers, such as the controller memory buffer of an SSD. */
static int list_p2p(const struct memory *memory, bool json)
{
	const char *function = memory->function.name;
	char a[32], b[32], name[128];
	uint64_t size, available;

	size = (uint64_t)sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/size", function);
	available = (uint64_t)sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/available", function);
	if (json) {
		json_memory(memory, size, available, UINT64_MAX);
		return 0;
	}
	printf("%-36s %10s %10s %10s  %04x:%04x  %s, driver %s\n",
	       memory->path[0] ? memory->path : function, size_text(size, a),
	       size_text(available, b), "", memory->function.vendor, memory->function.device,
	       pci_describe(&memory->function, name, sizeof(name)), memory->function.driver);
	return 0;
}

int command_list(int argc, char **argv)
{
	struct memories found;
	int rc = 0, count = 0;
	bool json;

	if (!json_option(argc, argv, &json))
		return STATUS_USAGE;
	found = memories_find(NULL);
	if (json) {
		json_open(NULL, '{');
		json_open("memory", '[');
	}
	for (int i = 0; i < found.count; i++) {
		const struct memory *memory = &found.list[i];

		if (memory->kind == MEMORY_GPU)
			continue;
		if (!count++ && !json)
			printf("%-36s %10s %10s %10s  %s\n", "MEMORY", "SIZE", "FREE", "LARGEST",
			       "DEVICE");
		rc |= memory->kind == MEMORY_BAR ? list_bar(memory, json) : list_p2p(memory, json);
	}
	memories_free(&found);
	if (json) {
		json_close();
		json_close();
	}
	if (count)
		return rc;
	warnx("no BAR");
	hint_open(ENOENT);
	return 1;
}

static int info_bar(const char *path, const char *function)
{
	struct iopm_device_attr_ex attr;
	struct pci_function f = { 0 };
	char name[128], node[16];

	if (!query(path, &attr))
		return 1;
	pci_read(&f, function);
	if (!sys_line(node, sizeof(node), "/sys/bus/pci/devices/%s/numa_node", function))
		strcpy(node, "?");
	printf("BAR:       %s\n", path);
	printf("device:    %04x:%04x, NUMA node %s\n", f.vendor, f.device, node);
	printf("name:      %s\n", pci_describe(&f, name, sizeof(name)));
	printf("size:      %llu\n", (unsigned long long)attr.max_dm_size);
	printf("free:      %llu\n", (unsigned long long)attr.free_dm_size);
	printf("largest:   %llu\n", (unsigned long long)attr.largest_dm_size);
	printf("page size: %llu\n", (unsigned long long)attr.dm_page_size);
	printf("published: %s\n",
	       sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/published", function) ? "yes" : "no");
	return 0;
}

int command_info(int argc, char **argv)
{
	char function[PCI_NAME] = "";
	struct memories found;
	int rc = 0, count = 0;

	if (argc != 2)
		return STATUS_USAGE;
	if (argv[1][0] == '/') {
		sscanf(argv[1], "/dev/io_peer_mem/%19[^/]", function);
		return info_bar(argv[1], function);
	}
	found = memories_find(pci_find(argv[1], function) ? function : argv[1]);
	for (int i = 0; i < found.count; i++) {
		if (found.list[i].kind != MEMORY_BAR)
			continue;
		rc |= info_bar(found.list[i].path, found.list[i].function.name);
		count++;
	}
	memories_free(&found);
	if (count)
		return rc;
	warnx("no BAR of %s", argv[1]);
	hint_open(ENOENT);
	return 1;
}

struct row {
	const struct memory *memory;
	struct distance distance;
	bool known;
};

static bool has_way(const struct row *row)
{
	return row->known && (!row->distance.asked || row->distance.reachable);
}

static int by_distance(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (has_way(a) != has_way(b))
		return has_way(a) ? -1 : 1;
	if (a->distance.route.distance != b->distance.route.distance)
		return a->distance.route.distance < b->distance.route.distance ? -1 : 1;
	return strcmp(a->memory->name, b->memory->name);
}

int command_nearest(int argc, char **argv)
{
	struct iopm_pci_address address;
	struct memories found;
	char function[PCI_NAME];
	struct row *rows;
	int count = 0;

	if (argc != 2)
		return STATUS_USAGE;
	if (!pci_find(argv[1], function)) {
		if (pci_parse(argv[1], &address))
			errx(1, "no PCI function %s", function);
		errx(1, "%s is neither a PCI address nor an RDMA or network device with one\n"
		     "  (a software device has no distance: the CPU copies)", argv[1]);
	}
	found = memories_find(NULL);
	rows = calloc((size_t)found.count + 1, sizeof(*rows));
	if (!rows)
		err(1, "memory");
	for (int i = 0; i < found.count; i++) {
		if (found.list[i].kind == MEMORY_GPU)
			continue;
		rows[count].memory = &found.list[i];
		rows[count].known = distance_find(&rows[count].distance, &found.list[i], function);
		count++;
	}
	qsort(rows, (size_t)count, sizeof(*rows), by_distance);
	if (count)
		printf("%-10s %s\n", "DISTANCE", "MEMORY");
	for (int i = 0; i < count; i++) {
		const struct memory *memory = rows[i].memory;
		const char *path = memory->path[0] ? memory->path : memory->name;

		if (has_way(&rows[i]))
			printf("%-10u %s\n", rows[i].distance.route.distance, path);
		else
			printf("%-10s %s\n", "no way", path);
	}
	free(rows);
	memories_free(&found);
	if (count)
		return 0;
	warnx("no BAR");
	hint_open(ENOENT);
	return 1;
}
