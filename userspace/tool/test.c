// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* iopm test: a transfer between each RDMA device and each memory. */
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "stack.h"
#include "transfer.h"

/* Ends the program unless the file is device memory: the test overwrites it. */
static void check_file(const char *path)
{
	static const char allocate[] = "/p2pmem/allocate";
	char real[PATH_MAX];
	struct stat status;
	size_t length;

	if (!realpath(path, real) || stat(real, &status))
		err(1, "%s", path);
	length = strlen(real);
	if (S_ISCHR(status.st_mode) ||
	    (!strncmp(real, "/sys/", 5) && length > strlen(allocate) &&
	     !strcmp(real + length - strlen(allocate), allocate)))
		return;
	errx(1, "%s is neither a character device nor p2pmem/allocate of a function, and the test "
	     "would overwrite it", path);
}

/* Prints the result of one pair. Returns the exit status. */
static int one(const char *adapter, const char *path)
{
	struct transfer transfer;

	transfer_run(&transfer, adapter, path);
	printf("%-4s  %s  %s: %s\n", transfer.ok ? "ok" : "FAIL", adapter, path, transfer.text);
	return transfer.ok ? 0 : 1;
}

int command_test(int argc, char **argv)
{
	const char *only_adapter = NULL, *only_path = NULL;
	struct adapters adapters;
	struct memories memories;
	int rc = 0, count = 0;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-' || i > 2)
			return STATUS_USAGE;
		if (argv[i][0] == '/')
			only_path = argv[i];
		else
			only_adapter = argv[i];
	}
	if (only_path)
		check_file(only_path);
	adapters = adapters_find();
	memories = memories_find(NULL);
	for (int i = 0; i < adapters.count; i++) {
		const char *adapter = adapters.list[i].name;

		if (only_adapter && strcmp(only_adapter, adapter))
			continue;
		if (only_path) {
			rc |= one(adapter, only_path);
			count++;
		}
		for (int j = 0; j < memories.count && !only_path; j++) {
			if (!memories.list[j].path[0])
				continue;
			rc |= one(adapter, memories.list[j].path);
			count++;
		}
	}
	memories_free(&memories);
	adapters_free(&adapters);
	if (count)
		return rc;
	warnx("nothing to test: %s", only_adapter ? "no such RDMA device, or no memory for it" :
						     "no RDMA device, or no memory for it");
	return 1;
}
