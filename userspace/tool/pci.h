/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* PCI functions, as sysfs shows them. */
#ifndef PCI_H
#define PCI_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <iopm.h>

/* "0000:03:00.0", with a larger domain as well. */
#define PCI_NAME 20
/* Bridges between a function and its host bridge. */
#define PCI_DEPTH 16

struct pci_bar {
	uint64_t start, size;		/* size 0: there is no such BAR */
	bool memory, prefetchable;
};

struct pci_function {
	char name[PCI_NAME];
	uint32_t vendor, device, class;
	char driver[64];		/* "" for none */
	struct pci_bar bars[6];
};

/* Parses [DOMAIN:]BUS:DEVICE.FUNCTION. */
bool pci_parse(const char *text, struct iopm_pci_address *address);
void pci_format(const struct iopm_pci_address *address, char name[PCI_NAME]);

/* Reads a function. Returns false if no function has this name. */
bool pci_read(struct pci_function *function, const char *name);

/*
 * Finds the function of an RDMA or network device, or of a PCI address. Returns false if there
 * is none, as for a software device.
 */
bool pci_find(const char *device, char name[PCI_NAME]);
/* The function of a device of /sys/class/@class. */
bool pci_of_class(const char *class, const char *device, char name[PCI_NAME]);

/*
 * Writes the names of vendor and device to @text, as lspci does: by libpci, if it is
 * installed; else the ids.
 */
const char *pci_describe(const struct pci_function *function, char *text, size_t size);

/* How the kernel's p2pdma reaches one function from another. */
struct pci_route {
	enum {
		PCI_ROUTE_BUS,		/* only bridges lie between the two: bus addresses */
		PCI_ROUTE_HOST,		/* through a host bridge that the kernel knows */
		PCI_ROUTE_UNKNOWN,	/* through a host bridge: the kernel has a list */
	} kind;
	unsigned int distance;
	bool acs_known;			/* false: the ACS control cannot be read (root only) */
	char acs[192];			/* bridges that redirect, for pci=disable_acs_redir= */
};

/* Finds the route. Returns false if one of them does not exist. */
bool pci_route(struct pci_route *route, const char *memory, const char *adapter);

#endif /* PCI_H */
