// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm doctor: why does an RDMA device not reach device memory? */
#include <err.h>
#include <getopt.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"
#include "transfer.h"

/* Leaves only the RDMA device of this name, or of the function at this address. */
static bool select_adapter(struct adapters *adapters, const char *name)
{
	char function[PCI_NAME];

	if (!pci_find(name, function))
		function[0] = 0;
	for (int i = 0; i < adapters->count; i++) {
		if (strcmp(adapters->list[i].name, name) &&
		    (!function[0] || strcmp(adapters->list[i].function, function)))
			continue;
		adapters->list[0] = adapters->list[i];
		adapters->count = 1;
		return true;
	}
	return false;
}

void check_transfers(const struct adapters *adapters, const struct memories *memories)
{
	struct transfer transfer;
	int count = 0;

	report_area("transfers");
	for (int i = 0; i < adapters->count; i++) {
		for (int j = 0; j < memories->count; j++) {
			const char *path = memories->list[j].path;

			if (!path[0])
				continue;
			transfer_run(&transfer, adapters->list[i].name, path);
			report(transfer.ok ? OK : FAIL, transfer.ok ? NULL : "dmesg | grep peer_mem",
			       "%s, %s: %s", adapters->list[i].name, memories->list[j].name,
			       transfer.text);
			count++;
		}
	}
	if (!count)
		report(WARN, NULL, "nothing to test: no RDMA device, or no memory that a file maps");
}

static void check_all(const struct adapters *adapters, bool test)
{
	struct memories memories = memories_find(NULL);

	check_kernel();
	check_modules();
	check_adapters(adapters);
	check_clients();
	check_gpus(&memories);
	check_memory(&memories);
	check_caller(&memories);
	check_routes(adapters, &memories);
	check_rejections();
	if (test)
		check_transfers(adapters, &memories);
	memories_free(&memories);
}

int command_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{ "test", no_argument, NULL, 't' },
		{ "json", no_argument, NULL, 'j' },
		{ "applications", no_argument, NULL, 'a' },
		{ 0 },
	};
	struct adapters adapters;
	bool test = false, json = false, applications = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't': test = true; break;
		case 'j': json = true; break;
		case 'a': applications = true; break;
		default: return STATUS_USAGE;
		}
	}
	if (optind + 1 < argc || (test && applications))
		return STATUS_USAGE;
	adapters = adapters_find();
	if (optind < argc && !select_adapter(&adapters, argv[optind]))
		errx(1, "no RDMA device %s", argv[optind]);

	report_begin(json);
	if (applications)
		check_applications(&adapters);
	else
		check_all(&adapters, test);
	adapters_free(&adapters);
	return report_end();
}
