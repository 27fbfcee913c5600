// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm candidates: which functions have a BAR for io_peer_mem, and why not the others. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "candidates.h"
#include "commands.h"
#include "sys.h"

unsigned long section_size(void)
{
	const unsigned long subsection = 2u << 20, struct_page = 64;
	unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
	/* The struct pages of this much memory fill a page. */
	unsigned long whole = page / struct_page * page;

	return whole > subsection ? whole : subsection;
}

bool bar_usable(const struct pci_bar *bar)
{
	return bar->size && bar->memory && bar->start && bar->size % section_size() == 0 &&
	       bar->start % section_size() == 0;
}

bool class_is_memory(const struct pci_function *function)
{
	return function->class >> 16 == 0x05 ||
	       (function->vendor == 0x1af4 && function->device == 0x1110);
}

bool is_bridge(const struct pci_function *function)
{
	return function->class >> 16 == 0x06;
}

/* --- what is in use --- */

static bool is_mounted(const char *disk)
{
	char device[32], line[512];
	bool found = false;
	FILE *f;

	if (!sys_line(device, sizeof(device), "/sys/class/block/%s/dev", disk))
		return false;
	f = sys_open("/proc/self/mountinfo");
	while (f && !found && fgets(line, sizeof(line), f)) {
		char number[32];

		found = sscanf(line, "%*d %*d %31s", number) == 1 && !strcmp(number, device);
	}
	if (f)
		fclose(f);
	return found;
}

static bool is_swap(const char *disk)
{
	char line[512], device[256];
	bool found = false;
	FILE *f = sys_open("/proc/swaps");

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "/dev/%255s", device) == 1 && !strcmp(device, disk);
	if (f)
		fclose(f);
	return found;
}

/*
 * Returns whether the disk is open exclusively: for a file system, in any mount namespace and over
 * several disks, for ZFS, swap, RAID or a database. This opens it for a moment, in which a mount fails.
 */
static bool is_exclusive(const char *disk)
{
	char path[PATH_MAX];
	int fd;

	sys_path(path, "/dev/%s", disk);
	/* In the names of disks, ! stands for the / of the path. */
	for (char *at = path; (at = strchr(at, '!'));)
		*at = '/';
	fd = open(path, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

/* Returns whether a path, with its links resolved, is that of the disk. */
static bool leads_to(const char *path, const char *disk)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	if (strncmp(real, "/dev/", 5))
		return false;
	for (char *at = real + 5; (at = strchr(at, '/'));)
		*at = '!';
	return !strcmp(real + 5, disk);
}

/* Returns whether the NVMe target exports the disk: it shares the disk with others. */
static bool is_exported(const char *disk)
{
	static const char dir[] = "/sys/kernel/config/nvmet/subsystems";
	struct sys_list subsystems = sys_list(dir);
	char path[PATH_MAX];
	bool found = false;

	for (int i = 0; i < subsystems.count && !found; i++) {
		const char *subsystem = subsystems.entries[i]->d_name;
		struct sys_list namespaces = sys_list("%s/%s/namespaces", dir, subsystem);

		for (int j = 0; j < namespaces.count && !found; j++) {
			const char *id = namespaces.entries[j]->d_name;

			found = sys_number(0, "%s/%s/namespaces/%s/enable", dir, subsystem, id) &&
				sys_line(path, sizeof(path), "%s/%s/namespaces/%s/device_path", dir, subsystem, id) &&
				leads_to(path, disk);
		}
		sys_list_free(&namespaces);
	}
	sys_list_free(&subsystems);
	return found;
}

/* Returns whether a process that the caller may look at has the disk open, such as a virtual machine. */
static bool is_open(const char *disk)
{
	struct sys_list processes = sys_list("/proc");
	char link[PATH_MAX], target[PATH_MAX];
	bool found = false;

	for (int i = 0; i < processes.count && !found; i++) {
		const char *pid = processes.entries[i]->d_name;
		struct sys_list files = { 0 };

		if (pid[0] >= '0' && pid[0] <= '9')
			files = sys_list("/proc/%s/fd", pid);
		for (int j = 0; j < files.count && !found; j++) {
			ssize_t n;

			sys_path(link, "/proc/%s/fd/%s", pid, files.entries[j]->d_name);
			n = readlink(link, target, sizeof(target) - 1);
			target[n > 0 ? n : 0] = 0;
			found = leads_to(target, disk);
		}
		sys_list_free(&files);
	}
	sys_list_free(&processes);
	return found;
}

/*
 * A disk or partition that is mounted, swap, exported, open, or that another block device (LVM, RAID, dm)
 * holds.
 */
static bool block_in_use(const char *disk, bool bind)
{
	struct sys_list holders = sys_list("/sys/class/block/%s/holders", disk);
	bool used = holders.count || is_mounted(disk) || is_swap(disk) ||
		    is_exported(disk) || is_open(disk) || (bind && is_exclusive(disk));

	sys_list_free(&holders);
	return used;
}

/* Returns whether a path of sysfs lies below the function. */
static bool lies_below(const char *path, const struct pci_function *function)
{
	char part[PCI_NAME + 2];

	snprintf(part, sizeof(part), "/%s/", function->name);
	return strstr(path, part);
}

/*
 * Returns whether the path is that of a disk with several controllers (CONFIG_NVME_MULTIPATH), of
 * which one is below the function. Such a disk belongs to the subsystem.
 */
static bool is_path_of(const char *path, const struct pci_function *function)
{
	static const char dir[] = "/nvme-subsystem/";
	const char *name = strstr(path, dir);
	char subsystem[64], controller[PATH_MAX];
	struct sys_list names;
	bool found = false;

	if (!name || sscanf(name + strlen(dir), "%63[^/]", subsystem) != 1)
		return false;
	names = sys_list("/sys/class/nvme-subsystem/%s", subsystem);
	for (int i = 0; i < names.count && !found; i++) {
		const char *entry = names.entries[i]->d_name;

		/* The links to the controllers, nvme0; its disks are nvme0n1. */
		found = !strncmp(entry, "nvme", 4) &&
			sys_real(controller, "/sys/class/nvme-subsystem/%s/%s", subsystem, entry) &&
			!strstr(controller, dir) && lies_below(strcat(controller, "/"), function);
	}
	sys_list_free(&names);
	return found;
}

/* Returns whether a device in /sys/class is one of the function. */
static bool below(const char *class, const char *name, const struct pci_function *function)
{
	char path[PATH_MAX];

	return sys_real(path, "/sys/class/%s/%s", class, name) &&
	       (lies_below(path, function) || is_path_of(path, function));
}

bool function_in_use(const struct pci_function *function, bool bind, char *text, size_t size)
{
	static const char *const classes[] = { "block", "net", "drm", "sound", "infiniband" };
	bool used = false;

	for (int c = 0; c < 5 && !used; c++) {
		struct sys_list names = sys_list("/sys/class/%s", classes[c]);

		for (int i = 0; i < names.count && !used; i++) {
			const char *name = names.entries[i]->d_name;
			long long flags = 1;

			if (!below(classes[c], name, function))
				continue;
			if (c == 0)
				used = block_in_use(name, bind);
			else if (c == 1) /* IFF_UP */
				used = sys_number(flags, "/sys/class/net/%s/flags", name) & 1;
			else
				used = true;
			if (used)
				snprintf(text, size, "%s %s", classes[c], name);
		}
		sys_list_free(&names);
	}
	return used;
}

/* --- the command --- */

/* Writes what to do with the function, or why it cannot be used. */
static void verdict(const struct pci_function *function, const struct pci_bar *bar, int number,
		    char *text, size_t size)
{
	char user[64];

	if (!strcmp(function->driver, "io_peer_mem")) {
		snprintf(text, size, "bound");
	} else if (!bar_usable(bar)) {
		snprintf(text, size, "no: not in whole sections of %lu MiB", section_size() >> 20);
	} else if (function_in_use(function, false, user, sizeof(user))) {
		snprintf(text, size, "no: in use (%s)", user);
	} else if (class_is_memory(function) && bar->prefetchable) {
		snprintf(text, size, "yes: iopm bind %s%s", function->name,
			 function->driver[0] ? " --force" : "");
	} else {
		snprintf(text, size, "only if it is memory, not registers: iopm bind %s --bar %d%s",
			 function->name, number, function->driver[0] ? " --force" : "");
	}
}

int command_candidates(int argc, char **argv)
{
	struct sys_list functions;
	struct pci_function function;
	char bytes[32], text[160], name[128];
	int count = 0;

	(void)argv;
	if (argc != 1)
		return STATUS_USAGE;
	functions = sys_list("/sys/bus/pci/devices");
	for (int i = 0; i < functions.count; i++) {
		if (!pci_read(&function, functions.entries[i]->d_name) || is_bridge(&function))
			continue;
		for (int n = 0; n < 6; n++) {
			const struct pci_bar *bar = &function.bars[n];

			/* Small BARs are registers. */
			if (!bar->memory || bar->size < 1 << 20)
				continue;
			if (!count++)
				printf("%-14s %-4s %10s %-14s %s\n", "FUNCTION", "BAR", "SIZE", "DRIVER",
				       "CAN BE USED");
			verdict(&function, bar, n, text, sizeof(text));
			printf("%-14s %-4d %10s %-14s %s\n", function.name, n, size_text(bar->size, bytes),
			       function.driver[0] ? function.driver : "none", text);
			printf("               %s\n", pci_describe(&function, name, sizeof(name)));
		}
	}
	sys_list_free(&functions);
	if (!count)
		printf("no PCI function has a memory BAR of 1 MiB or more\n");
	return 0;
}
