// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Names of vendors and devices, by libpci. It is loaded at run time: the program works
 * without it, and shows the ids.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "pci.h"

/* From <pci/pci.h>: the interface of libpci.so.3. */
#define LOOKUP_VENDOR 1
#define LOOKUP_DEVICE 2

static char *(*lookup)(void *access, char *text, int size, int flags, ...);
static void *library_access;

static void load(void)
{
	static int loaded;
	void *(*alloc)(void);
	void (*init)(void *);
	void *library;

	/* Without a bus pci_init() would end the program. */
	if (loaded++ || access("/sys/bus/pci/devices", R_OK))
		return;
	library = dlopen("libpci.so.3", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	*(void **)&alloc = dlsym(library, "pci_alloc");
	*(void **)&init = dlsym(library, "pci_init");
	*(void **)&lookup = dlsym(library, "pci_lookup_name");
	if (!alloc || !init || !lookup)
		return;
	library_access = alloc();
	init(library_access);
}

const char *pci_describe(const struct pci_function *function, char *text, size_t size)
{
	load();
	if (library_access &&
	    lookup(library_access, text, (int)size, LOOKUP_VENDOR | LOOKUP_DEVICE,
		   function->vendor, function->device))
		return text;
	snprintf(text, size, "%04x:%04x", function->vendor, function->device);
	return text;
}
