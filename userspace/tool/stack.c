// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "sys.h"

bool module_loaded(const char *module)
{
	return sys_exists("/sys/module/%s/refcnt", module);
}

/* Returns whether a list of the running kernel's modules has this one. */
static bool listed(const char *list, const char *module)
{
	struct release release = sys_release();
	char line[4096], file[96];
	bool found = false;
	FILE *f;

	f = sys_open("/lib/modules/%s/%s", release.name, list);
	snprintf(file, sizeof(file), "/%s.ko", module);
	/* PATH/NAME.ko[.xz]: DEPENDENCY... */
	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, ":")] = 0;
		found = strstr(line, file);
	}
	if (f)
		fclose(f);
	return found;
}

bool module_installed(const char *module)
{
	return listed("modules.dep", module);
}

bool module_builtin(const char *module)
{
	return listed("modules.builtin", module);
}

/* --- RDMA devices --- */

static void read_row(const char *row, struct adapter *adapters, int count)
{
	char name[64], driver[64], backend[32], can_fence[32];

	if (sscanf(row, "%63[^\t]\t%63[^\t]\t%31[^\t]\t%31[^\n]", name, driver, backend, can_fence) != 4)
		return;
	for (int i = 0; i < count; i++) {
		if (strcmp(adapters[i].name, name))
			continue;
		snprintf(adapters[i].driver, sizeof(adapters[i].driver), "%s", driver);
		snprintf(adapters[i].backend, sizeof(adapters[i].backend), "%s", backend);
		snprintf(adapters[i].can_fence, sizeof(adapters[i].can_fence), "%s", can_fence);
	}
}

static void read_backends(struct adapters *adapters)
{
	FILE *f = sys_open(DEBUGFS "/devices");
	char row[256];

	if (!f)
		return;
	/* The headings. */
	adapters->backends_known = fgets(row, sizeof(row), f);
	while (fgets(row, sizeof(row), f))
		read_row(row, adapters->list, adapters->count);
	fclose(f);
}

struct adapters adapters_find(void)
{
	struct sys_list names = sys_list("/sys/class/infiniband");
	struct adapters found = { .list = calloc((size_t)names.count + 1, sizeof(struct adapter)) };

	for (int i = 0; found.list && i < names.count; i++) {
		struct adapter *adapter = &found.list[found.count++];
		struct pci_function function;

		snprintf(adapter->name, sizeof(adapter->name), "%.63s", names.entries[i]->d_name);
		if (!pci_of_class("infiniband", adapter->name, adapter->function))
			continue;
		if (pci_read(&function, adapter->function))
			snprintf(adapter->driver, sizeof(adapter->driver), "%s", function.driver);
	}
	sys_list_free(&names);
	if (found.list)
		read_backends(&found);
	return found;
}

void adapters_free(struct adapters *adapters)
{
	free(adapters->list);
	adapters->list = NULL;
}

/* --- memory --- */

static struct memory *add_memory(struct memories *found, enum memory_kind kind,
				 const struct pci_function *function)
{
	struct memory *longer = realloc(found->list, ((size_t)found->count + 1) * sizeof(*longer));
	struct memory *memory;

	if (!longer)
		return NULL;
	found->list = longer;
	memory = &longer[found->count++];
	memset(memory, 0, sizeof(*memory));
	memory->kind = kind;
	memory->function = *function;
	snprintf(memory->name, sizeof(memory->name), "%s", function->name);
	return memory;
}

static void add_bars(struct memories *found, const struct pci_function *function)
{
	struct sys_list bars = sys_list("/dev/io_peer_mem/%s", function->name);

	for (int i = 0; i < bars.count; i++) {
		struct memory *memory = add_memory(found, MEMORY_BAR, function);

		if (!memory)
			break;
		snprintf(memory->name, sizeof(memory->name), "%s/%.20s", function->name,
			 bars.entries[i]->d_name);
		snprintf(memory->path, sizeof(memory->path), "/dev/io_peer_mem/%.60s", memory->name);
	}
	sys_list_free(&bars);
}

static bool is_gpu(const struct pci_function *function)
{
	/* NVIDIA and AMD: display controllers, and accelerators without a display. */
	return (function->vendor == 0x10de || function->vendor == 0x1002) &&
	       (function->class >> 16 == 0x03 || function->class >> 16 == 0x12);
}

struct memories memories_find(const char *only)
{
	struct sys_list functions = sys_list("/sys/bus/pci/devices");
	struct memories found = { 0 };
	struct pci_function function;

	for (int i = 0; i < functions.count; i++) {
		const char *name = functions.entries[i]->d_name;

		if ((only && strcmp(only, name)) || !pci_read(&function, name))
			continue;
		if (!strcmp(function.driver, "io_peer_mem")) {
			add_bars(&found, &function);
		} else if (sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/size", name) > 0) {
			struct memory *memory = add_memory(&found, MEMORY_P2P, &function);

			if (memory && sys_exists("/sys/bus/pci/devices/%s/p2pmem/allocate", name))
				snprintf(memory->path, sizeof(memory->path),
					 "/sys/bus/pci/devices/%s/p2pmem/allocate", function.name);
		} else if (is_gpu(&function)) {
			add_memory(&found, MEMORY_GPU, &function);
		}
	}
	sys_list_free(&functions);
	return found;
}

void memories_free(struct memories *memories)
{
	free(memories->list);
	memories->list = NULL;
}

/* --- the distance --- */

/* Asks the kernel. Returns false if the BAR cannot be opened. */
static bool ask(struct distance *distance, const struct memory *memory, const char *function)
{
	struct iopm_pci_address address;
	struct iopm_context *context;
	struct iopm_nearest nearest;
	char path[PATH_MAX];
	int error;

	if (memory->kind != MEMORY_BAR || !pci_parse(function, &address))
		return false;
	sys_path(path, "%s", memory->path);
	context = iopm_open_path(path);
	if (!context)
		return false;
	error = iopm_query_nearest(context, &address, &nearest);
	iopm_close_device(context);
	if (error)
		return false;
	distance->asked = true;
	distance->reachable = nearest.comp_mask & IOPM_NEAREST_DISTANCE;
	if (distance->reachable)
		distance->route.distance = nearest.distance;
	return true;
}

bool distance_find(struct distance *distance, const struct memory *memory, const char *function)
{
	memset(distance, 0, sizeof(*distance));
	if (!pci_route(&distance->route, memory->function.name, function))
		return false;
	if (ask(distance, memory, function) && distance->reachable &&
	    distance->route.kind == PCI_ROUTE_UNKNOWN)
		distance->route.kind = PCI_ROUTE_HOST;
	return true;
}

void distance_text(const struct distance *distance, char *text, size_t size)
{
	const char *way;

	if (distance->asked && !distance->reachable) {
		snprintf(text, size, "no way");
		return;
	}
	switch (distance->route.kind) {
	case PCI_ROUTE_BUS: way = distance->route.acs_known ? "bus address" : "bus address?"; break;
	case PCI_ROUTE_HOST: way = "host bridge"; break;
	default: way = "host bridge?"; break;
	}
	snprintf(text, size, "%u %s", distance->route.distance, way);
}

/* --- clients --- */

unsigned long long client_counter(const char *client, const char *counter)
{
	return (unsigned long long)sys_number(0, PEERS "/%s/%s", client, counter);
}

unsigned long long client_live(const char *client, const char *begun, const char *ended,
			       unsigned long long *all)
{
	unsigned long long gone = client_counter(client, ended), made = client_counter(client, begun);

	if (all)
		*all = made;
	return made > gone ? made - gone : 0;
}
