// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "sys.h"

#define FUNCTIONS "/sys/bus/pci/devices"

/* Of a line of the file resource, as in the kernel's ioport.h. */
#define RESOURCE_MEMORY 0x200
#define RESOURCE_PREFETCHABLE 0x2000

bool pci_parse(const char *text, struct iopm_pci_address *address)
{
	unsigned int domain, bus, slot, function;
	int end = 0;

	if (sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end) != 4 ||
	    text[end]) {
		domain = end = 0;
		if (sscanf(text, "%x:%x.%x%n", &bus, &slot, &function, &end) != 3 || text[end])
			return false;
	}
	if (bus > 0xff || slot > 0x1f || function > 7)
		return false;
	address->domain = domain;
	address->bdf = bus << 8 | slot << 3 | function;
	return true;
}

void pci_format(const struct iopm_pci_address *address, char name[PCI_NAME])
{
	snprintf(name, PCI_NAME, "%04x:%02x:%02x.%x", address->domain, address->bdf >> 8 & 0xff,
		 address->bdf >> 3 & 0x1f, address->bdf & 7);
}

static void read_bars(struct pci_function *function)
{
	unsigned long long start, end, flags;
	struct pci_bar *bar = function->bars;
	FILE *f = sys_open(FUNCTIONS "/%s/resource", function->name);

	while (f && bar < function->bars + 6 && fscanf(f, "%llx %llx %llx", &start, &end,
						       &flags) == 3) {
		bar->start = start;
		bar->size = end > start ? end - start + 1 : 0;
		bar->memory = flags & RESOURCE_MEMORY;
		bar->prefetchable = flags & RESOURCE_PREFETCHABLE;
		bar++;
	}
	if (f)
		fclose(f);
}

bool pci_read(struct pci_function *function, const char *name)
{
	memset(function, 0, sizeof(*function));
	snprintf(function->name, sizeof(function->name), "%s", name);
	if (!sys_exists(FUNCTIONS "/%s/vendor", function->name))
		return false;
	function->vendor = (uint32_t)sys_number(0, FUNCTIONS "/%s/vendor", name);
	function->device = (uint32_t)sys_number(0, FUNCTIONS "/%s/device", name);
	function->class = (uint32_t)sys_number(0, FUNCTIONS "/%s/class", name);
	sys_target(function->driver, sizeof(function->driver), FUNCTIONS "/%s/driver", name);
	read_bars(function);
	return true;
}

bool pci_of_class(const char *class, const char *device, char name[PCI_NAME])
{
	struct iopm_pci_address address;
	char path[PATH_MAX], *last;

	if (strchr(device, '/') || !sys_real(path, "/sys/class/%s/%s/device", class, device))
		return false;
	/* The function is the device, or a parent of it. */
	while ((last = strrchr(path, '/'))) {
		if (pci_parse(last + 1, &address)) {
			snprintf(name, PCI_NAME, "%.19s", last + 1);
			return true;
		}
		*last = 0;
	}
	return false;
}

bool pci_find(const char *device, char name[PCI_NAME])
{
	struct iopm_pci_address address;

	if (pci_parse(device, &address)) {
		pci_format(&address, name);
		return sys_exists(FUNCTIONS "/%s", name);
	}
	return pci_of_class("infiniband", device, name) || pci_of_class("net", device, name);
}

/* --- the route between two functions --- */

struct path {
	char names[PCI_DEPTH][PCI_NAME];	/* the function, then the bridges above it */
	int count;
};

static bool read_path(struct path *path, const char *name)
{
	struct iopm_pci_address address;
	char real[PATH_MAX], *last;

	path->count = 0;
	if (!sys_real(real, FUNCTIONS "/%s", name))
		return false;
	while ((last = strrchr(real, '/')) && path->count < PCI_DEPTH) {
		if (!pci_parse(last + 1, &address))
			break;
		snprintf(path->names[path->count++], PCI_NAME, "%.19s", last + 1);
		*last = 0;
	}
	return path->count > 0;
}

#define CONFIG_SIZE 4096
#define CAPABILITY_ACS 0x0d
/* Requests or completions are redirected, or an egress vector decides. */
#define ACS_REDIRECTS (1 << 2 | 1 << 3 | 1 << 5)

static unsigned int word(const unsigned char *config, unsigned int at)
{
	return config[at] | config[at + 1] << 8;
}

/* Returns whether the bridge redirects, or -1 if its configuration space cannot be read. */
static int acs_redirects(const char *name)
{
	unsigned char config[CONFIG_SIZE] = { 0 };
	unsigned int at = 0x100, left = (CONFIG_SIZE - 0x100) / 8;
	FILE *f = sys_open(FUNCTIONS "/%s/config", name);
	size_t n;

	if (!f)
		return -1;
	n = fread(config, 1, sizeof(config), f);
	fclose(f);
	/* Without privileges 64 bytes; a conventional function has 256. */
	if (n < 256)
		return -1;
	if (n < CONFIG_SIZE)
		return 0;
	for (; at >= 0x100 && at <= CONFIG_SIZE - 8 && left--; at = word(config, at + 2) >> 4 & ~3u)
		if (word(config, at) == CAPABILITY_ACS)
			return !!(word(config, at + 6) & ACS_REDIRECTS);
	return 0;
}

static void add_acs(struct pci_route *route, const char *name)
{
	size_t n = strlen(route->acs);
	int redirects = acs_redirects(name);

	if (redirects < 0)
		route->acs_known = false;
	else if (redirects)
		snprintf(route->acs + n, sizeof(route->acs) - n, "%s%s", n ? ";" : "", name);
}

/* Of AMD's CPUs the kernel supports all since Zen, family 17h. */
static bool cpu_routes(void)
{
	FILE *f = sys_open("/proc/cpuinfo");
	unsigned int family = 0;
	bool amd = false;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		amd |= strstr(line, "AuthenticAMD") != NULL;
		sscanf(line, "cpu family : %u", &family);
		if (line[0] == '\n')
			break;
	}
	if (f)
		fclose(f);
	return amd && family >= 0x17;
}

bool pci_route(struct pci_route *route, const char *memory, const char *adapter)
{
	struct path a, b;
	int i, j = 0;

	memset(route, 0, sizeof(*route));
	if (!read_path(&a, memory) || !read_path(&b, adapter))
		return false;
	route->acs_known = true;
	for (i = 0; i < a.count; i++) {
		add_acs(route, a.names[i]);
		for (j = 0; j < b.count; j++)
			if (!strcmp(a.names[i], b.names[j]))
				goto common;
	}
	/* The roots differ: ACS on the way makes no difference then. */
	route->acs[0] = 0;
	route->acs_known = true;
	route->distance = (unsigned int)(a.count + b.count);
	route->kind = cpu_routes() ? PCI_ROUTE_HOST : PCI_ROUTE_UNKNOWN;
	return true;
common:
	route->distance = (unsigned int)(i + j);
	for (int k = 0; k < j; k++)
		add_acs(route, b.names[k]);
	if (!route->acs[0])
		route->kind = PCI_ROUTE_BUS;
	else
		route->kind = cpu_routes() ? PCI_ROUTE_HOST : PCI_ROUTE_UNKNOWN;
	return true;
}
