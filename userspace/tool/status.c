// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm status, topology: what is loaded and registered, and the distances. */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "stack.h"
#include "sys.h"

static void print_modules(void)
{
	static const char *const modules[] = { "ib_core", "ib_uverbs", "ib_peer_mem", "io_peer_mem" };
	char version[32];

	printf("%-16s %s\n", "MODULE", "STATE");
	for (int i = 0; i < 4; i++) {
		const char *module = modules[i];

		if (!module_loaded(module))
			printf("%-16s not loaded\n", module);
		else if (sys_line(version, sizeof(version), "/sys/module/%s/version", module))
			printf("%-16s loaded, version %s\n", module, version);
		else
			printf("%-16s loaded\n", module);
	}
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

static void print_clients(void)
{
	struct sys_list clients = sys_list(PEERS);
	char version[64], size[32];

	printf("\n%-20s %-16s %8s %12s %10s %12s\n", "CLIENT", "VERSION", "MRS", "REGISTERED", "MRS EVER",
	       "INVALIDATED");
	for (int i = 0; i < clients.count; i++) {
		const char *name = clients.entries[i]->d_name;
		unsigned long long made = client_counter(name, "num_alloc_mrs");
		unsigned long long bytes = client_counter(name, "num_reg_bytes") -
					   client_counter(name, "num_dereg_bytes");

		sys_line(version, sizeof(version), PEERS "/%s/version", name);
		printf("%-20s %-16s %8llu %12s %10llu %12llu\n", name, version,
		       made - client_counter(name, "num_dealloc_mrs"), size_text(bytes, size), made,
		       client_counter(name, "num_free_callbacks"));
	}
	sys_list_free(&clients);
}

/* MRs on mapped dma-bufs of drivers that are no clients; for root. */
static void print_dma_bufs(void)
{
	FILE *file = sys_open("/sys/kernel/debug/ib_peer_mem/dma_bufs");
	char line[128], device[64], size[32];
	unsigned long long made, live, bytes;

	if (!file)
		return;
	printf("\n%-20s %-16s %8s %12s %10s\n", "MAPPED DMA-BUFS", "", "MRS", "REGISTERED", "MRS EVER");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %llu %llu %llu", device, &made, &live, &bytes) == 4)
			printf("%-20s %-16s %8llu %12s %10llu\n", device, "", live,
			       size_text(bytes, size), made);
	fclose(file);
}

int command_status(int argc, char **argv)
{
	(void)argv;
	if (argc != 1)
		return STATUS_USAGE;
	print_modules();
	print_adapters();
	print_clients();
	print_dma_bufs();
	return module_loaded("ib_peer_mem") ? 0 : 1;
}

static const char *const kinds[] = {
	[MEMORY_BAR] = "io_peer_mem",
	[MEMORY_P2P] = "peer-to-peer memory",
	[MEMORY_GPU] = "GPU",
};

/* A row for each memory, a column for each adapter. */
int command_topology(int argc, char **argv)
{
	struct adapters adapters;
	struct memories memories;
	struct distance distance;
	char text[64];

	(void)argv;
	if (argc != 1)
		return STATUS_USAGE;
	adapters = adapters_find();
	memories = memories_find(NULL);
	printf("%-24s", "MEMORY");
	for (int j = 0; j < adapters.count; j++)
		printf(" %-18s", adapters.list[j].name);
	printf(" %s\n", "KIND");
	for (int i = 0; i < memories.count; i++) {
		printf("%-24s", memories.list[i].name);
		for (int j = 0; j < adapters.count; j++) {
			if (!adapters.list[j].function[0])
				snprintf(text, sizeof(text), "CPU copies");
			else if (distance_find(&distance, &memories.list[i], adapters.list[j].function))
				distance_text(&distance, text, sizeof(text));
			else
				snprintf(text, sizeof(text), "gone");
			printf(" %-18s", text);
		}
		printf(" %s\n", kinds[memories.list[i].kind]);
	}
	if (!adapters.count || !memories.count)
		warnx("no %s", adapters.count ? "memory for RDMA" : "RDMA device");
	memories_free(&memories);
	adapters_free(&adapters);
	return 0;
}
