// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The list of BARs. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iopm.h>

#define DEVICES "/dev/io_peer_mem/"

struct iopm_device {
	/* The name is the end of the path. */
	char path[sizeof(DEVICES) + 48];
};

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void free_entries(struct dirent **entries, int n)
{
	while (n > 0)
		free(entries[--n]);
	free(entries);
}

/* Appends the BARs of one function to @list of *@n entries, and a NULL. Returns an errno. */
static int add_function(struct iopm_device ***list, int *n, const char *function)
{
	struct iopm_device **longer, *device;
	struct dirent **files;
	char dir[sizeof(device->path)];
	int count, error = 0;

	snprintf(dir, sizeof(dir), DEVICES "%.20s", function);
	count = scandir(dir, &files, is_visible, alphasort);
	/* The function may have gone meanwhile. */
	if (count < 0)
		return errno == ENOMEM ? ENOMEM : 0;
	longer = realloc(*list, (*n + count + 1) * sizeof(*longer));
	if (longer)
		*list = longer;
	else
		error = ENOMEM;
	for (int i = 0; i < count && !error; i++) {
		device = calloc(1, sizeof(*device));
		if (!device) {
			error = ENOMEM;
			break;
		}
		snprintf(device->path, sizeof(device->path), "%.40s/%.16s", dir,
			 files[i]->d_name);
		longer[(*n)++] = device;
		longer[*n] = NULL;
	}
	free_entries(files, count);
	return error;
}

struct iopm_device **iopm_get_device_list(int *num_devices)
{
	struct iopm_device **list = calloc(1, sizeof(*list));
	struct dirent **functions = NULL;
	int count, n = 0, error = 0;

	if (num_devices)
		*num_devices = 0;
	if (!list)
		return NULL;
	count = scandir(DEVICES, &functions, is_visible, alphasort);
	if (count < 0 && errno != ENOENT)
		error = errno;
	for (int i = 0; i < count && !error; i++)
		error = add_function(&list, &n, functions[i]->d_name);
	if (count >= 0)
		free_entries(functions, count);
	if (error) {
		iopm_free_device_list(list);
		errno = error;
		return NULL;
	}
	if (num_devices)
		*num_devices = n;
	return list;
}

void iopm_free_device_list(struct iopm_device **list)
{
	for (int i = 0; list[i]; i++)
		free(list[i]);
	free(list);
}

const char *iopm_get_device_name(struct iopm_device *device)
{
	return device->path + strlen(DEVICES);
}

const char *iopm_get_device_path(struct iopm_device *device)
{
	return device->path;
}

int iopm_get_device_address(struct iopm_device *device, struct iopm_pci_address *address)
{
	unsigned int domain, bus, slot, function;

	if (sscanf(iopm_get_device_name(device), "%x:%2x:%2x.%1x/", &domain, &bus, &slot,
		   &function) != 4)
		return EINVAL;
	address->domain = domain;
	address->bdf = bus << 8 | slot << 3 | function;
	return 0;
}

struct iopm_context *iopm_open_device(struct iopm_device *device)
{
	return iopm_open_path(device->path);
}
