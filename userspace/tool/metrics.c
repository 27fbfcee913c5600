// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm metrics: the state of the machine as text of OpenMetrics. */
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iopm.h>

#include "commands.h"
#include "json.h"
#include "regions.h"
#include "stack.h"
#include "sys.h"
#include "text.h"

struct label {
	const char *name, *value;
};

/* Begins a family: the samples of the family follow. */
static void family(const char *name, const char *type, const char *help)
{
	printf("# TYPE ib_peer_mem_%s %s\n# HELP ib_peer_mem_%s %s\n", name, type, name, help);
}

/* Prints a sample. @labels ends with a label without a name. */
static void sample(const char *name, const struct label *labels, unsigned long long value)
{
	printf("ib_peer_mem_%s", name);
	for (int i = 0; labels[i].name; i++) {
		printf("%s%s=", i ? "," : "{", labels[i].name);
		print_quoted(labels[i].value, false);
	}
	printf("%s %llu\n", labels[0].name ? "}" : "", value);
}
#define LABELS(...) ((const struct label[]){ __VA_ARGS__, { NULL, NULL } })
#define NO_LABELS ((const struct label[]){ { NULL, NULL } })

static void modules(void)
{
	static const char *const names[] = { "ib_peer_mem", "io_peer_mem" };
	char version[64];

	family("module_loaded", "gauge", "Whether the module is loaded.");
	for (int i = 0; i < 2; i++) {
		sys_line(version, sizeof(version), "/sys/module/%s/version", names[i]);
		sample("module_loaded", LABELS({ "module", names[i] }, { "version", version }),
		       module_loaded(names[i]));
	}
}

/* The counters of the clients, see Documentation/operations.rst. */
static void clients(void)
{
	static const struct {
		const char *family, *sample, *file, *help;
	} counters[] = {
		{ "registrations", "registrations_total", "num_alloc_mrs",
		  "MRs that were made on memory of the client." },
		{ "deregistrations", "deregistrations_total", "num_dealloc_mrs",
		  "MRs that ended: deregistered or revoked." },
		{ "registered_bytes", "registered_bytes_total", "num_reg_bytes",
		  "Bytes of the MRs that were made." },
		{ "deregistered_bytes", "deregistered_bytes_total", "num_dereg_bytes",
		  "Bytes of the MRs that ended." },
		{ "registered_pages", "registered_pages_total", "num_reg_pages",
		  "Pages of the MRs that were made." },
		{ "deregistered_pages", "deregistered_pages_total", "num_dereg_pages",
		  "Pages of the MRs that ended." },
		{ "invalidations", "invalidations_total", "num_free_callbacks",
		  "Invalidations by the client, whatever their effect." },
		{ "revocations", "revocations_total", "num_revocations",
		  "Regions that were fenced before the user deregistered the MR." },
		{ "failed_fences", "failed_fences_total", "num_failed_fences",
		  "Attempts to fence that failed or timed out." },
	};
	struct sys_list names = sys_list(PEERS);

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		family(counters[i].family, "counter", counters[i].help);
		for (int j = 0; j < names.count; j++) {
			const char *client = names.entries[j]->d_name;
			long long value = sys_number(-1, PEERS "/%s/%s", client, counters[i].file);

			/* An older module does not have each counter. */
			if (value >= 0)
				sample(counters[i].sample, LABELS({ "client", client }),
				       (unsigned long long)value);
		}
	}
	sys_list_free(&names);
}

/* The regions that differ in nothing but the process, the address and the age. */
struct group {
	char client[64], device[64], kind[16], state[24];
	unsigned long long count, bytes;
};

static void add_region(struct group **groups, int *count, const struct region *region)
{
	struct group *group, *longer;

	for (int i = 0; i < *count; i++) {
		group = &(*groups)[i];
		if (!strcmp(group->client, region->client) && !strcmp(group->device, region->device) &&
		    !strcmp(group->kind, region->kind) && !strcmp(group->state, region->state)) {
			group->count++;
			group->bytes += region->length;
			return;
		}
	}
	longer = realloc(*groups, ((size_t)*count + 1) * sizeof(*longer));
	if (!longer)
		err(1, "memory");
	*groups = longer;
	group = &longer[(*count)++];
	snprintf(group->client, sizeof(group->client), "%s", region->client);
	snprintf(group->device, sizeof(group->device), "%s", region->device);
	snprintf(group->kind, sizeof(group->kind), "%s", region->kind);
	snprintf(group->state, sizeof(group->state), "%s", region->state);
	group->count = 1;
	group->bytes = region->length;
}

/* For root: debugfs. */
static void regions(void)
{
	FILE *file = regions_open();
	struct group *groups = NULL;
	struct region region;
	char line[512];
	int count = 0;

	while (file && regions_next(file, line, &region))
		add_region(&groups, &count, &region);
	family("details_readable", "gauge", "Whether debugfs could be read, which the metrics of regions, "
	       "devices and rejections need.");
	sample("details_readable", NO_LABELS, file != NULL);
	family("regions", "gauge", "Live regions and imports.");
	for (int bytes = 0; bytes < 2; bytes++) {
		const char *name = bytes ? "region_bytes" : "regions";

		if (bytes)
			family(name, "gauge", "Bytes of the live regions and imports.");
		for (int i = 0; i < count; i++) {
			const struct group *g = &groups[i];

			sample(name, LABELS({ "client", g->client }, { "device", g->device },
					    { "kind", g->kind }, { "state", g->state }),
			       bytes ? g->bytes : g->count);
		}
	}
	free(groups);
	if (file)
		fclose(file);
}

static void devices(void)
{
	struct adapters adapters = adapters_find();

	family("device_served", "gauge", "Whether ib_peer_mem serves the RDMA device.");
	for (int i = 0; adapters.backends_known && i < adapters.count; i++) {
		const struct adapter *a = &adapters.list[i];

		sample("device_served", LABELS({ "device", a->name }, { "driver", a->driver },
					       { "backend", a->backend }, { "can_fence", a->can_fence }),
		       a->backend[0] != 0);
	}
	adapters_free(&adapters);
}

static void rejections(void)
{
	FILE *file = sys_open(DEBUGFS "/rejections");
	unsigned long long count = 0;
	double age = 0;
	char line[512];

	/* The newest is the last. */
	while (file && fgets(line, sizeof(line), file))
		count += sscanf(line, "%lf", &age) == 1;
	family("kept_rejections", "gauge", "Rejected registrations in the log of the last 64.");
	if (file)
		sample("kept_rejections", NO_LABELS, count);
	family("last_rejection_age_seconds", "gauge", "Seconds since the last rejected registration.");
	if (file && count)
		sample("last_rejection_age_seconds", NO_LABELS, (unsigned long long)age);
	if (file)
		fclose(file);
}

struct pool {
	unsigned long long size, free, largest;
	bool known, largest_known;
};

static struct pool pool_of(const struct memory *memory)
{
	const char *function = memory->function.name;
	struct iopm_device_attr_ex attr;
	struct iopm_context *context;
	struct pool pool = { 0 };
	char path[PATH_MAX];

	if (memory->kind == MEMORY_P2P) {
		pool.size = (unsigned long long)sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/size", function);
		pool.free = (unsigned long long)sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/available",
							   function);
		pool.known = true;
		return pool;
	}
	sys_path(path, "%s", memory->path);
	context = memory->kind == MEMORY_BAR ? iopm_open_path(path) : NULL;
	if (!context)
		return pool;
	if (!iopm_query_device_ex(context, NULL, &attr))
		pool = (struct pool){ attr.max_dm_size, attr.free_dm_size, attr.largest_dm_size, true, true };
	iopm_close_device(context);
	return pool;
}

/* BARs of io_peer_mem that the caller may open, and peer-to-peer memory of other drivers. */
static void pools(void)
{
	static const char *const names[] = { "pool_size_bytes", "pool_free_bytes",
					     "pool_largest_free_bytes" };
	static const char *const helps[] = { "Size of the memory for RDMA.", "Free memory.",
					     "Largest free range." };
	struct memories found = memories_find(NULL);
	struct pool *list = calloc((size_t)found.count + 1, sizeof(*list));

	if (!list)
		err(1, "memory");
	for (int i = 0; i < found.count; i++)
		list[i] = pool_of(&found.list[i]);
	for (int n = 0; n < 3; n++) {
		family(names[n], "gauge", helps[n]);
		for (int i = 0; i < found.count; i++) {
			const struct pool *pool = &list[i];

			if (pool->known && (n < 2 || pool->largest_known))
				sample(names[n], LABELS({ "memory", found.list[i].name },
							{ "driver", found.list[i].function.driver }),
				       n == 0 ? pool->size : n == 1 ? pool->free : pool->largest);
		}
	}
	free(list);
	memories_free(&found);
}

static void print_all(void)
{
	modules();
	clients();
	regions();
	devices();
	rejections();
	pools();
	fputs("# EOF\n", stdout);
}

int command_metrics(int argc, char **argv)
{
	const char *output;

	if (!output_option(argc, argv, &output))
		return STATUS_USAGE;
	if (output)
		return output_to(output, print_all);
	print_all();
	return 0;
}
