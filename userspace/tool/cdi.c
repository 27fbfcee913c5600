// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm cdi: a specification of the Container Device Interface, for container runtimes. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "stack.h"
#include "sys.h"

/* What all supported versions of podman, docker, containerd and CRI-O read. */
#define VERSION "0.6.0"
#define KIND "ib-peer-mem/device"
#define CONTROL "/dev/ib_peer_mem"
#define CM "/dev/infiniband/rdma_cm"

static void node(const char *path)
{
	json_open(NULL, '{');
	json_text("path", path);
	json_text("permissions", "rw");
	json_close();
}

static void node_if_there(const char *path)
{
	if (sys_exists("%s", path))
		node(path);
}

static void device_begin(const char *name)
{
	json_open(NULL, '{');
	json_text("name", name);
	json_open("containerEdits", '{');
	json_open("deviceNodes", '[');
}

static void device_end(void)
{
	json_close();
	json_close();
	json_close();
}

/* Writes the device file of an RDMA device, /dev/infiniband/uverbsN, to @path. */
static bool verbs_node(const char *device, char path[128])
{
	struct sys_list files = sys_list("/sys/class/infiniband_verbs");
	bool found = false;
	char name[64];

	for (int i = 0; !found && i < files.count; i++) {
		const char *file = files.entries[i]->d_name;

		found = sys_line(name, sizeof(name), "/sys/class/infiniband_verbs/%s/ibdev", file) &&
			!strcmp(name, device);
		if (found)
			snprintf(path, 128, "/dev/infiniband/%.64s", file);
	}
	sys_list_free(&files);
	return found && sys_exists("%s", path);
}

/* The name of a BAR in the specification: without the slash, which CDI does not allow. */
static void bar_name(const struct memory *memory, char name[64])
{
	char *slash;

	snprintf(name, 64, "%s", memory->name);
	slash = strchr(name, '/');
	if (slash)
		*slash = '-';
}

/* One device for each BAR and each RDMA device, and "all". */
static void print_specification(void)
{
	struct memories memories = memories_find(NULL);
	struct adapters adapters = adapters_find();
	char path[128], name[64];
	bool any = false;

	json_open(NULL, '{');
	json_text("cdiVersion", VERSION);
	json_text("kind", KIND);
	json_open("devices", '[');
	for (int i = 0; i < memories.count; i++) {
		if (memories.list[i].kind != MEMORY_BAR)
			continue;
		any = true;
		bar_name(&memories.list[i], name);
		device_begin(name);
		node(memories.list[i].path);
		node_if_there(CONTROL);
		device_end();
	}
	for (int i = 0; i < adapters.count; i++) {
		if (!verbs_node(adapters.list[i].name, path))
			continue;
		any = true;
		device_begin(adapters.list[i].name);
		node(path);
		node_if_there(CM);
		device_end();
	}
	/* Runtimes reject a device without edits, and all others with it. */
	if (!any && !sys_exists(CONTROL) && !sys_exists(CM))
		goto end;
	device_begin("all");
	for (int i = 0; i < memories.count; i++) {
		if (memories.list[i].kind == MEMORY_BAR)
			node(memories.list[i].path);
	}
	for (int i = 0; i < adapters.count; i++) {
		if (verbs_node(adapters.list[i].name, path))
			node(path);
	}
	node_if_there(CONTROL);
	node_if_there(CM);
	device_end();
end:
	json_close();
	json_close();
	adapters_free(&adapters);
	memories_free(&memories);
}

int command_cdi(int argc, char **argv)
{
	const char *output;

	if (!output_option(argc, argv, &output))
		return STATUS_USAGE;
	if (output)
		return output_to(output, print_specification);
	print_specification();
	return 0;
}
