// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Checks of memory, of GPUs, of what the caller may do, and of the routes. */
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "doctor.h"
#include "sys.h"

/* --- memory --- */

static void check_link(const struct memory *memory)
{
	const char *name = memory->function.name;
	char speed[32], most[32];
	long long width = sys_number(0, "/sys/bus/pci/devices/%s/current_link_width", name);
	long long widest = sys_number(0, "/sys/bus/pci/devices/%s/max_link_width", name);

	/* 255, or nothing: the function has no link of its own. */
	if (width <= 0 || width > 32 || widest > 32)
		return;
	sys_line(speed, sizeof(speed), "/sys/bus/pci/devices/%s/current_link_speed", name);
	sys_line(most, sizeof(most), "/sys/bus/pci/devices/%s/max_link_speed", name);
	if (width < widest)
		report(WARN, "lspci -vv: look for LnkSta", "%s: its link is x%lld of x%lld, %s", name,
		       width, widest, speed);
	else
		report(OK, NULL, "%s: link x%lld, %s of %s", name, width, speed, most);
}

static uint64_t largest_bar(const struct pci_function *function)
{
	uint64_t largest = 0;

	for (int i = 0; i < 6; i++)
		if (function->bars[i].prefetchable && function->bars[i].size > largest)
			largest = function->bars[i].size;
	return largest;
}

void check_memory(const struct memories *memories)
{
	char name[128], size[32], fix[64];

	report_area("memory");
	if (!memories->count)
		report(WARN, "iopm candidates", "no PCI function offers memory for RDMA");
	for (int i = 0; i < memories->count; i++) {
		const struct memory *memory = &memories->list[i];
		const char *function = memory->function.name;

		pci_describe(&memory->function, name, sizeof(name));
		switch (memory->kind) {
		case MEMORY_BAR:
			report(OK, NULL, "%s: a BAR of io_peer_mem (%s)", memory->name, name);
			if (sys_number(0, "/sys/bus/pci/devices/%s/io_peer_mem/drain", function)) {
				snprintf(fix, sizeof(fix), "iopm drain --end %s", function);
				report(WARN, fix, "%s is drained: registrations of its memory fail with EBUSY",
				       function);
			}
			break;
		case MEMORY_P2P:
			size_text((uint64_t)sys_number(0, "/sys/bus/pci/devices/%s/p2pmem/size", function),
				  size);
			report(OK, NULL, "%s: %s of peer-to-peer memory of %s (%s)", function, size,
			       memory->function.driver, name);
			if (!sys_exists(PEERS "/io_peer_mem"))
				report(WARN, module_loaded("io_peer_mem") ?
				       "echo 1 >/sys/module/io_peer_mem/parameters/p2pmem" :
				       "modprobe io_peer_mem p2pmem=1",
				       "%s: no client serves it", function);
			break;
		case MEMORY_GPU:
			size_text(largest_bar(&memory->function), size);
			if (largest_bar(&memory->function) <= 256u << 20)
				report(WARN, "enable Above 4G Decoding and Resizable BAR in the firmware",
				       "%s: a GPU (%s) with a BAR of %s: no more of its memory can be "
				       "registered at a time", function, name, size);
			else
				report(OK, NULL, "%s: a GPU (%s), BAR of %s", function, name, size);
			break;
		}
		check_link(memory);
	}
}

/* --- GPUs --- */

/* Returns whether the installed nvidia-peermem depends on ib_peer_mem. */
static bool peermem_links(bool *installed)
{
	char line[4096];
	bool links = false;
	struct release release = sys_release();
	FILE *f = sys_open("/lib/modules/%s/modules.dep", release.name);

	*installed = false;
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':'), *name = strstr(line, "/nvidia-peermem.ko");

		if (!name || !colon || name > colon)
			continue;
		*installed = true;
		links = strstr(colon, "/ib_peer_mem.ko");
	}
	if (f)
		fclose(f);
	return links;
}

/* Its build looks where MLNX_OFED would have the symbols, and ib-peer-mem-compat puts them there. */
static const char *peermem_fix(void)
{
	char line[64];
	bool enabled = false;
	FILE *f = sys_open("/etc/default/ib-peer-mem");

	while (f && fgets(line, sizeof(line), f))
		enabled |= !strcmp(line, "COMPAT=yes\n");
	if (f)
		fclose(f);
	return enabled ? "ib-peer-mem-compat rebuild && modprobe nvidia-peermem" :
	       "ib-peer-mem-compat enable && ib-peer-mem-compat rebuild && modprobe nvidia-peermem";
}

static void check_nvidia(void)
{
	char line[256] = "";
	bool installed, links;
	bool open;

	sys_line(line, sizeof(line), "/proc/driver/nvidia/version");
	if (!line[0]) {
		report(WARN, nvidia_release_fix(), "NVIDIA's driver is not loaded");
		return;
	}
	open = strstr(line, "Open Kernel Module");
	if (!open) {
		report(FAIL, nvidia_release_fix(),
		       "NVIDIA's closed kernel modules: the kernel refuses the symbols of ib_peer_mem, "
		       "which are GPL-only, to a module that depends on them");
		return;
	}
	report(OK, NULL, "NVIDIA's open kernel modules (dma-bufs need no nvidia-peermem)");
	links = peermem_links(&installed);
	if (sys_exists(PEERS "/nv_mem") || module_loaded("nvidia_peermem"))
		report(OK, NULL, "nvidia-peermem is loaded");
	else if (!installed)
		report(WARN, NULL, "nvidia-peermem is not installed: only dma-bufs reach the GPU's memory");
	else if (!links)
		report(FAIL, peermem_fix(),
		       "nvidia-peermem was built without ib_peer_mem's symbols: modprobe answers "
		       "\"Invalid argument\"");
	else
		report(FAIL, "modprobe nvidia-peermem", "nvidia-peermem is not loaded");
}

void check_gpus(const struct memories *memories)
{
	bool nvidia = sys_exists("/proc/driver/nvidia/version"), amd = module_loaded("amdgpu");

	for (int i = 0; i < memories->count; i++) {
		nvidia |= memories->list[i].kind == MEMORY_GPU &&
			  memories->list[i].function.vendor == 0x10de;
	}
	report_area("GPUs");
	check_nvidia_dkms();
	if (nvidia)
		check_nvidia();
	if (amd && sys_exists(PEERS "/amdkfd"))
		report(OK, NULL, "amdgpu is a client");
	else if (amd)
		report(WARN, "with AMD's DKMS driver: rmmod amdgpu; modprobe amdgpu",
		       "amdgpu is no client: the kernel's own has dma-bufs only, and AMD's DKMS driver "
		       "looks for ib_peer_mem when it is loaded");
}

/* --- the caller --- */

static void check_node(const struct memory *memory)
{
	char full[PATH_MAX], chgrp[224];

	sys_path(full, "%s", memory->path);
	snprintf(chgrp, sizeof(chgrp), "chgrp rdma %s; again after each boot and each bind of the driver, which "
		 "make it anew", memory->path);
	if (!access(full, R_OK | W_OK))
		report(OK, NULL, "this user may open %s", memory->path);
	else if (errno == EACCES)
		/* udev gives the BARs to the group; the file of other memory is root's. */
		report(FAIL, memory->kind == MEMORY_BAR ? "usermod -aG rdma USER; then log in again" :
		       chgrp, "this user may not open %s", memory->path);
	else
		report(FAIL, NULL, "%s: %s", memory->path, strerror(errno));
}

static void check_verbs_nodes(void)
{
	char pattern[PATH_MAX];
	glob_t found = { 0 };
	bool allowed = false;

	sys_path(pattern, "/dev/infiniband/uverbs*");
	glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		allowed |= !access(found.gl_pathv[i], R_OK | W_OK);
	if (allowed)
		report(OK, NULL, "this user may open RDMA devices");
	else if (found.gl_pathc)
		report(FAIL, "apt install rdma-core", "this user may open no /dev/infiniband/uverbs*");
	globfree(&found);
}

void check_caller(const struct memories *memories)
{
	struct rlimit limit;

	report_area("permissions");
	check_verbs_nodes();
	for (int i = 0; i < memories->count; i++)
		if (memories->list[i].path[0])
			check_node(&memories->list[i]);
	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || !geteuid())
		report(OK, NULL, "ulimit -l does not limit this user");
	else if (limit.rlim_cur < 64u << 20)
		report(WARN, "ulimit -l unlimited (/etc/security/limits.d)",
		       "ulimit -l is %llu KiB: more host memory cannot be registered; device memory "
		       "does not count", (unsigned long long)limit.rlim_cur >> 10);
	else
		report(OK, NULL, "ulimit -l is %llu KiB", (unsigned long long)limit.rlim_cur >> 10);
}

/* --- routes --- */

static bool has_no_route(const struct distance *distance)
{
	return distance->asked && !distance->reachable;
}

/*
 * A pair without a route is no failure: on a machine with several sockets each device has its own
 * memory. check_partners() finds a device or a memory that has none.
 */
static void check_route(const struct adapter *adapter, const struct memory *memory)
{
	char text[64], fix[384];
	struct distance distance;

	if (!distance_find(&distance, memory, adapter->function))
		return;
	distance_text(&distance, text, sizeof(text));
	snprintf(fix, sizeof(fix), "add pci=disable_acs_redir=%s to the kernel's command line; then "
		 "devices below these bridges can access each other without the IOMMU",
		 distance.route.acs);
	if (has_no_route(&distance))
		report(WARN, distance.route.acs[0] ? fix : "put both below one PCIe switch",
		       "%s, %s: the kernel supports no route: %s", adapter->name, memory->name,
		       distance.route.acs[0] ? "ACS redirects" :
		       "they share no bridge, and the host bridge is not on its list");
	else if (distance.route.acs[0])
		report(WARN, fix, "%s, %s: distance %s, because bridges redirect (ACS)", adapter->name,
		       memory->name, text);
	else if (!distance.route.acs_known)
		report(UNKNOWN, "sudo iopm doctor",
		       "%s, %s: distance %s; only root can read whether bridges redirect (ACS)",
		       adapter->name, memory->name, text);
	else if (distance.route.kind == PCI_ROUTE_UNKNOWN)
		report(WARN, "iopm test", "%s, %s: distance %s: only host bridges on the kernel's list route",
		       adapter->name, memory->name, text);
	else
		report(OK, NULL, "%s, %s: distance %s", adapter->name, memory->name, text);
}

/* Of the pairs of one RDMA device, or of one memory, whose distance is known. */
struct pairs {
	int all, routes;
};

static void count_pair(struct pairs *pairs, const struct adapter *adapter,
		       const struct memory *memory)
{
	struct distance distance;

	if (!adapter->function[0] || !distance_find(&distance, memory, adapter->function))
		return;
	pairs->all++;
	pairs->routes += !has_no_route(&distance);
}

static void check_partners(const struct adapters *adapters, const struct memories *memories)
{
	for (int i = 0; i < adapters->count; i++) {
		struct pairs pairs = { 0 };

		for (int j = 0; j < memories->count; j++)
			count_pair(&pairs, &adapters->list[i], &memories->list[j]);
		if (pairs.all && !pairs.routes)
			report(FAIL, "put memory below its PCIe switch", "%s: no route to any memory",
			       adapters->list[i].name);
	}
	for (int j = 0; j < memories->count; j++) {
		struct pairs pairs = { 0 };

		for (int i = 0; i < adapters->count; i++)
			count_pair(&pairs, &adapters->list[i], &memories->list[j]);
		if (pairs.all && !pairs.routes)
			report(FAIL, "put an RDMA device below its PCIe switch",
			       "%s: no RDMA device has a route to it", memories->list[j].name);
	}
}

void check_routes(const struct adapters *adapters, const struct memories *memories)
{
	report_area("routes");
	for (int i = 0; i < adapters->count; i++) {
		if (!adapters->list[i].function[0] && memories->count) {
			report(OK, NULL, "%s: a software device, for which the CPU copies",
			       adapters->list[i].name);
			continue;
		}
		for (int j = 0; j < memories->count; j++)
			check_route(&adapters->list[i], &memories->list[j]);
	}
	check_partners(adapters, memories);
}
