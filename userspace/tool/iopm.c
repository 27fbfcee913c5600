// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm(1): memory for RDMA on PCI devices, and why an adapter does not reach it. */
#include <stdio.h>
#include <string.h>

#include <iopm.h>

#include "commands.h"
#include "sys.h"

static const struct command {
	const char *name, *arguments, *help;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "doctor", "[--test | --applications] [--json] [DEVICE]",
	  "check all that device memory for RDMA needs, and say how to fix what is missing; or\n"
	  "           show what applications find here, and what they conclude",
	  command_doctor },
	{ "list", "[--json]", "list the memory for RDMA, and how much of it is free", command_list },
	{ "info", "BAR|BDF", "show one BAR, /dev/io_peer_mem/BDF/barN, or those of a function",
	  command_info },
	{ "nearest", "DEVICE|BDF", "sort the memory by its distance from an RDMA or network device",
	  command_nearest },
	{ "topology", "[--json]", "show the distance and route between each RDMA device and each memory",
	  command_topology },
	{ "status", "[--json]", "show the modules, the RDMA devices with their backends, and the clients",
	  command_status },
	{ "regions", "[--json]", "list which process has registered which memory of which client (root)",
	  command_regions },
	{ "metrics", "[--output FILE]", "print the state as text of OpenMetrics, for Prometheus",
	  command_metrics },
	{ "cdi", "[--output FILE]", "print a CDI specification of the memory and the RDMA devices, for containers",
	  command_cdi },
	{ "test", "[DEVICE] [FILE]", "write to memory by RDMA, read it back and compare",
	  command_test },
	{ "candidates", "", "list the PCI functions with a BAR that io_peer_mem can serve",
	  command_candidates },
	{ "bind", "[--bar N] [--force] BDF", "bind a PCI function to io_peer_mem", command_bind },
	{ "unbind", "BDF", "unbind it", command_unbind },
	{ "drain", "[--timeout SECONDS | --end] BDF|CLIENT",
	  "refuse new registrations of this memory, and wait until the old ones are gone", command_drain },
};

static void usage(FILE *to)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(to, "%s iopm %s %s\n           %s\n", i ? "      " : "usage:",
			commands[i].name, commands[i].arguments, commands[i].help);
	fprintf(to, "       iopm --version | --help\n"
		"DEVICE is an RDMA or network device, BDF the address of a PCI function\n"
		"(0000:03:00.0), FILE a file of device memory that can be mapped. See also iopm(1).\n");
}

int main(int argc, char **argv)
{
	const char *what;
	int rc = STATUS_USAGE;

	/* Another root for /sys, /proc and /dev, for tests. */
	if (argc > 2 && !strcmp(argv[1], "--sysroot")) {
		sys_root = argv[2];
		argc -= 2;
		argv += 2;
	}
	what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "--help") || !strcmp(what, "-h") || !strcmp(what, "help")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(what, "--version")) {
		printf("iopm %s\n", iopm_version());
		return 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, what))
			rc = commands[i].run(argc - 1, argv + 1);
	if (rc == STATUS_USAGE)
		usage(stderr);
	return rc;
}
