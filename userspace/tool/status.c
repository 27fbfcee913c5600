// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm status, topology: what is loaded and registered, and the distances. */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "stack.h"
#include "sys.h"

/* NULL for an empty text. */
static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void print_modules(bool json)
{
	static const char *const modules[] = { "ib_core", "ib_uverbs", "ib_peer_mem", "io_peer_mem" };
	char version[32];

	if (json)
		json_open("modules", '[');
	else
		printf("%-16s %s\n", "MODULE", "STATE");
	for (int i = 0; i < 4; i++) {
		const char *module = modules[i];
		bool loaded = module_loaded(module);
		bool known = sys_line(version, sizeof(version), "/sys/module/%s/version", module);

		if (json) {
			json_open(NULL, '{');
			json_text("name", module);
			json_bool("loaded", loaded);
			json_text("version", known ? version : NULL);
			json_close();
		} else if (!loaded)
			printf("%-16s not loaded\n", module);
		else if (known)
			printf("%-16s loaded, version %s\n", module, version);
		else
			printf("%-16s loaded\n", module);
	}
	if (json)
		json_close();
}

static void json_adapters(void)
{
	struct adapters adapters = adapters_find();

	json_bool("backends_known", adapters.backends_known);
	json_open("devices", '[');
	for (int i = 0; i < adapters.count; i++) {
		const struct adapter *a = &adapters.list[i];

		json_open(NULL, '{');
		json_text("name", a->name);
		json_text("function", or_null(a->function));
		json_text("driver", or_null(a->driver));
		json_text("backend", or_null(a->backend));
		json_text("can_fence", or_null(a->can_fence));
		json_close();
	}
	json_close();
	adapters_free(&adapters);
}

static void print_adapters(void)
{
	struct adapters adapters = adapters_find();

	printf("\n%-16s %-14s %-14s %-18s %s\n", "RDMA DEVICE", "FUNCTION", "DRIVER", "BACKEND",
	       "CAN FENCE");
	for (int i = 0; i < adapters.count; i++) {
		const struct adapter *a = &adapters.list[i];
		const char *unknown = adapters.backends_known ? "none" : "? (root only)";

		printf("%-16s %-14s %-14s %-18s %s\n", a->name, a->function[0] ? a->function : "software",
		       a->driver[0] ? a->driver : "?", a->backend[0] ? a->backend : unknown,
		       a->can_fence[0] ? a->can_fence : "?");
	}
	adapters_free(&adapters);
}

static void print_clients(bool json)
{
	struct sys_list clients = sys_list(PEERS);
	char version[64], size[32];

	if (json)
		json_open("clients", '[');
	else
		printf("\n%-20s %-16s %8s %12s %10s %12s\n", "CLIENT", "VERSION", "MRS", "REGISTERED", "MRS EVER",
		       "INVALIDATED");
	for (int i = 0; i < clients.count; i++) {
		const char *name = clients.entries[i]->d_name;
		unsigned long long made, live = client_live(name, "num_alloc_mrs", "num_dealloc_mrs", &made);
		unsigned long long bytes = client_live(name, "num_reg_bytes", "num_dereg_bytes", NULL);
		unsigned long long invalidated = client_counter(name, "num_free_callbacks");

		sys_line(version, sizeof(version), PEERS "/%s/version", name);
		if (!json) {
			printf("%-20s %-16s %8llu %12s %10llu %12llu\n", name, version, live,
			       size_text(bytes, size), made, invalidated);
			continue;
		}
		json_open(NULL, '{');
		json_text("name", name);
		json_text("version", version);
		json_number("mrs", live);
		json_number("bytes", bytes);
		json_number("mrs_ever", made);
		json_number("invalidations", invalidated);
		json_close();
	}
	sys_list_free(&clients);
	if (json)
		json_close();
}

/* MRs on mapped dma-bufs of drivers that are no clients; for root. */
static void print_dma_bufs(bool json)
{
	FILE *file = sys_open(DEBUGFS "/dma_bufs");
	char line[128], device[64], size[32];
	unsigned long long made, live, bytes;

	if (!file) {
		if (json)
			json_text("dma_bufs", NULL);
		return;
	}
	if (json)
		json_open("dma_bufs", '[');
	else
		printf("\n%-20s %-16s %8s %12s %10s\n", "MAPPED DMA-BUFS", "", "MRS", "REGISTERED",
		       "MRS EVER");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %llu %llu %llu", device, &made, &live, &bytes) != 4)
			continue;
		if (!json) {
			printf("%-20s %-16s %8llu %12s %10llu\n", device, "", live,
			       size_text(bytes, size), made);
			continue;
		}
		json_open(NULL, '{');
		json_text("device", device);
		json_number("mrs", live);
		json_number("bytes", bytes);
		json_number("mrs_ever", made);
		json_close();
	}
	fclose(file);
	if (json)
		json_close();
}

int command_status(int argc, char **argv)
{
	bool json;

	if (!json_option(argc, argv, &json))
		return STATUS_USAGE;
	if (json)
		json_open(NULL, '{');
	print_modules(json);
	if (json)
		json_adapters();
	else
		print_adapters();
	print_clients(json);
	print_dma_bufs(json);
	if (json)
		json_close();
	return module_loaded("ib_peer_mem") ? 0 : 1;
}

static const char *const kinds[] = {
	[MEMORY_BAR] = "io_peer_mem",
	[MEMORY_P2P] = "peer-to-peer memory",
	[MEMORY_GPU] = "GPU",
};

/* The distance and the route between a memory and an adapter. */
static void json_pair(const struct memory *memory, const struct adapter *adapter)
{
	static const char *const routes[] = {
		[PCI_ROUTE_BUS] = "bus address",
		[PCI_ROUTE_HOST] = "host bridge",
		[PCI_ROUTE_UNKNOWN] = "host bridge",
	};
	struct distance distance;
	bool software = !adapter->function[0];
	bool known = !software && distance_find(&distance, memory, adapter->function);
	bool none = known && distance.asked && !distance.reachable;

	json_open(NULL, '{');
	json_text("memory", memory->name);
	json_text("kind", kinds[memory->kind]);
	json_text("device", adapter->name);
	if (software)
		json_text("route", "CPU copies");
	else
		json_text("route", !known ? NULL : none ? "none" : routes[distance.route.kind]);
	if (known && !none)
		json_number("distance", distance.route.distance);
	else
		json_text("distance", NULL);
	/* false: the table has a question mark. */
	json_bool("certain", software || none ||
			     (known && (distance.route.kind == PCI_ROUTE_BUS ? distance.route.acs_known :
					distance.route.kind == PCI_ROUTE_HOST)));
	json_close();
}

static void json_topology(const struct adapters *adapters, const struct memories *memories)
{
	json_open(NULL, '{');
	json_open("pairs", '[');
	for (int i = 0; i < memories->count; i++)
		for (int j = 0; j < adapters->count; j++)
			json_pair(&memories->list[i], &adapters->list[j]);
	json_close();
	json_close();
}

/* A row for each memory, a column for each adapter. */
static void print_topology(const struct adapters *adapters, const struct memories *memories)
{
	struct distance distance;
	char text[64];

	printf("%-24s", "MEMORY");
	for (int j = 0; j < adapters->count; j++)
		printf(" %-18s", adapters->list[j].name);
	printf(" %s\n", "KIND");
	for (int i = 0; i < memories->count; i++) {
		printf("%-24s", memories->list[i].name);
		for (int j = 0; j < adapters->count; j++) {
			if (!adapters->list[j].function[0])
				snprintf(text, sizeof(text), "CPU copies");
			else if (distance_find(&distance, &memories->list[i], adapters->list[j].function))
				distance_text(&distance, text, sizeof(text));
			else
				snprintf(text, sizeof(text), "gone");
			printf(" %-18s", text);
		}
		printf(" %s\n", kinds[memories->list[i].kind]);
	}
}

int command_topology(int argc, char **argv)
{
	struct adapters adapters;
	struct memories memories;
	bool json;

	if (!json_option(argc, argv, &json))
		return STATUS_USAGE;
	adapters = adapters_find();
	memories = memories_find(NULL);
	(json ? json_topology : print_topology)(&adapters, &memories);
	if (!adapters.count || !memories.count)
		warnx("no %s", adapters.count ? "memory for RDMA" : "RDMA device");
	memories_free(&memories);
	adapters_free(&adapters);
	return 0;
}
