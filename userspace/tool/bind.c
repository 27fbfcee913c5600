// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm bind, unbind: one function, by its driver_override. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "candidates.h"
#include "commands.h"
#include "modules.h"
#include "stack.h"
#include "sys.h"

#define DRIVER "/sys/bus/pci/drivers/io_peer_mem"

static void read_function(struct pci_function *function, const char *text)
{
	struct iopm_pci_address address;
	char name[PCI_NAME];

	if (!pci_parse(text, &address))
		errx(1, "%s is no address of a PCI function, as 0000:03:00.0", text);
	pci_format(&address, name);
	if (!pci_read(function, name))
		errx(1, "no PCI function %s", name);
}

/* Ends the program unless another driver may lose the function. */
static void check_driver(const struct pci_function *function, bool force)
{
	char user[64];

	if (function_in_use(function, true, user, sizeof(user)))
		errx(1, "%s is in use: %s (driver %s)", function->name, user, function->driver);
	if (function->driver[0] && !force)
		errx(1, "%s belongs to the driver %s; with --force it is unbound from it",
		     function->name, function->driver);
}

static void check_bars(const struct pci_function *function, int bar)
{
	bool found = false;

	if (is_bridge(function))
		errx(1, "%s is a bridge", function->name);
	for (int i = 0; i < 6; i++)
		found |= bar_usable(&function->bars[i]) && (bar < 0 ? class_is_memory(function) &&
				function->bars[i].prefetchable : i == bar);
	if (!found && bar >= 0)
		errx(1, "BAR %d of %s is not memory in whole sections of %lu MiB", bar, function->name,
		     section_size() >> 20);
	if (!found)
		errx(1, "%s has no BAR that is memory by its class; \"iopm candidates\" shows its BARs, "
		     "--bar selects one", function->name);
}

/* Writes to a file of the function; says why it cannot. */
static bool may_write(const char *text, const char *path, const char *function)
{
	int error = sys_write(text, path, function);

	if (!error)
		return true;
	errno = error;
	warn(path, function);
	if (error == EACCES || error == EPERM)
		fprintf(stderr, "  run it as root\n");
	return false;
}

static void must_write(const char *text, const char *path, const char *function)
{
	if (!may_write(text, path, function))
		exit(1);
}

/*
 * Binds with these options for this function alone: the driver takes them with its address, so they
 * apply to no other function, whatever happens to this process.
 */
static int bind_with(const struct pci_function *function, int bar)
{
	char text[64];

	if (bar < 0)
		return sys_write(function->name, DRIVER "/bind");
	snprintf(text, sizeof(text), "%s bars=%d", function->name, bar);
	return sys_write(text, DRIVER "/bind_with");
}

int command_bind(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bar", required_argument, NULL, 'b' },
		{ "force", no_argument, NULL, 'f' },
		{ 0 },
	};
	struct pci_function function;
	bool force = false, had_core, loaded;
	int c, bar = -1, error;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'f')
			force = true;
		else if (c != 'b' || sscanf(optarg, "%d", &bar) != 1 || bar < 0 || bar > 5)
			return STATUS_USAGE;
	}
	if (optind + 1 != argc)
		return STATUS_USAGE;
	read_function(&function, argv[optind]);
	if (!strcmp(function.driver, "io_peer_mem")) {
		printf("%s is bound already\n", function.name);
		return 0;
	}
	check_driver(&function, force);
	check_bars(&function, bar);
	/* What was loaded before stays. */
	had_core = module_loaded("ib_peer_mem");
	loaded = module_load("io_peer_mem");
	/* Its parameter ids or devices may name the function. */
	sys_target(function.driver, sizeof(function.driver), "/sys/bus/pci/devices/%s/driver", function.name);
	if (!strcmp(function.driver, "io_peer_mem")) {
		printf("%s is bound to io_peer_mem, by the parameters of the module\n", function.name);
		return 0;
	}
	if (bar >= 0 && !sys_exists(DRIVER "/bind_with"))
		errx(1, "the io_peer_mem that is loaded is older than iopm: there is no " DRIVER "/bind_with");

	/* Before the function loses its driver: a failure leaves the function as it was. */
	must_write("io_peer_mem\n", "/sys/bus/pci/devices/%s/driver_override", function.name);
	if (!function.driver[0] ||
	    may_write(function.name, "/sys/bus/pci/devices/%s/driver/unbind", function.name)) {
		error = bind_with(&function, bar);
		if (!error) {
			printf("%s is bound to io_peer_mem\n", function.name);
			return 0;
		}
		errno = error;
		warn("bind %s", function.name);
		fprintf(stderr, "  the kernel log has the cause\n");
	}
	/* As before, but for the driver that had it. */
	sys_write("\n", "/sys/bus/pci/devices/%s/driver_override", function.name);
	if (function.driver[0])
		sys_write(function.name, "/sys/bus/pci/drivers_probe");
	if (loaded)
		modules_unload_unused(!had_core);
	return 1;
}

int command_unbind(int argc, char **argv)
{
	struct pci_function function;

	if (argc != 2)
		return STATUS_USAGE;
	read_function(&function, argv[1]);
	if (strcmp(function.driver, "io_peer_mem"))
		errx(1, "%s is not bound to io_peer_mem", function.name);
	/* Without the override, or the function would be bound to io_peer_mem again. */
	must_write("\n", "/sys/bus/pci/devices/%s/driver_override", function.name);
	must_write(function.name, "/sys/bus/pci/devices/%s/driver/unbind", function.name);
	printf("%s is unbound; \"echo %s >/sys/bus/pci/drivers_probe\" gives it to its own driver\n",
	       function.name, function.name);
	modules_unload_unused(true);
	return 0;
}
