// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Checks of RDMA devices and clients; the last rejections. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "sys.h"

static void check_port(const struct adapter *adapter)
{
	char state[32];

	if (!sys_line(state, sizeof(state), "/sys/class/infiniband/%s/ports/1/state", adapter->name))
		return;
	if (strstr(state, "ACTIVE"))
		report(OK, NULL, "%s: port 1 is active", adapter->name);
	else
		report(WARN, "rdma link", "%s: port 1 is not active (%s)", adapter->name, state);
}

static void check_backend(const struct adapters *adapters, const struct adapter *adapter)
{
	if (!adapters->backends_known) {
		if (module_loaded("ib_peer_mem"))
			report(UNKNOWN, "sudo iopm doctor", "%s: only root can read its backend",
			       adapter->name);
	} else if (!adapter->backend[0]) {
		report(FAIL, "cat /sys/module/ib_peer_mem/parameters/backend",
		       "%s: ib_peer_mem does not serve it: its driver cannot import dma-bufs nor pin "
		       "through ib_core, or the parameter backend excludes it", adapter->name);
	} else if (!strcmp(adapter->can_fence, "no")) {
		report(WARN, NULL, "%s (%s): served by %s; MRs cannot be fenced: clients that require "
		       "invalidation, as GPU drivers do, are not asked for it", adapter->name,
		       adapter->driver, adapter->backend);
	} else if (!strcmp(adapter->can_fence, "fatal error")) {
		report(WARN, NULL, "%s (%s): has reported a fatal error, so memory on it stays pinned; "
		       "reset it", adapter->name, adapter->driver);
	} else {
		report(OK, NULL, "%s (%s): hooked, served by %s, can fence: %s", adapter->name,
		       adapter->driver, adapter->backend, adapter->can_fence);
	}
}

void check_adapters(const struct adapters *adapters)
{
	report_area("RDMA devices");
	if (!adapters->count)
		report(FAIL, "rdma link add rxe0 type rxe netdev eth0",
		       "there is no RDMA device; software RDMA works without hardware");
	for (int i = 0; i < adapters->count; i++) {
		check_port(&adapters->list[i]);
		check_backend(adapters, &adapters->list[i]);
	}
}

void check_clients(void)
{
	struct sys_list clients;
	char fix[96];

	if (!module_loaded("ib_peer_mem"))
		return;
	clients = sys_list(PEERS);
	report_area("clients");
	if (!clients.count)
		report(WARN, "iopm bind BDF", "no client is registered: no memory but that of the host, and "
		       "of mapped dma-bufs, can be registered (a GPU's client is nvidia-peermem or its own driver)");
	for (int i = 0; i < clients.count; i++) {
		const char *name = clients.entries[i]->d_name;
		unsigned long long made, live = client_live(name, "num_alloc_mrs", "num_dealloc_mrs", &made);

		report(OK, NULL, "%s: %llu MRs, %llu since it was registered, %llu invalidated", name, live, made,
		       client_counter(name, "num_free_callbacks"));
		if (sys_number(0, PEERS "/%s/drain", name)) {
			snprintf(fix, sizeof(fix), "iopm drain --end %.64s", name);
			report(WARN, fix, "%s is drained: registrations of its memory fail with EBUSY", name);
		}
	}
	sys_list_free(&clients);
}

/* The columns of the file. */
enum { AGE, PID, PROCESS, ADDRESS, LENGTH, DEVICE, CLIENT, ERROR, CAUSE, COLUMNS };

/* Splits a line at its tabs. Returns false if columns are missing. */
static bool split(char *line, char *columns[COLUMNS])
{
	line[strcspn(line, "\n")] = 0;
	for (int i = 0; i < COLUMNS; i++) {
		columns[i] = strsep(&line, "\t");
		if (!columns[i])
			return false;
	}
	return true;
}

#define SHOWN 5

void check_rejections(void)
{
	char lines[SHOWN][512], line[512], *columns[COLUMNS];
	FILE *f = sys_open(DEBUGFS "/rejections");
	int count = 0;

	if (!module_loaded("ib_peer_mem"))
		return;
	report_area("rejections");
	if (!f) {
		report(UNKNOWN, "sudo iopm doctor", "only root can read the last rejections: %s",
		       strerror(errno));
		return;
	}
	/* The oldest one comes first, after the headings. */
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	while (fgets(line, sizeof(line), f))
		strcpy(lines[count++ % SHOWN], line);
	fclose(f);
	if (!count)
		report(OK, NULL, "no memory was refused since ib_peer_mem was loaded");
	for (int i = count > SHOWN ? count - SHOWN : 0; i < count; i++) {
		if (!split(lines[i % SHOWN], columns))
			continue;
		report(WARN, NULL, "%s s ago: %s (pid %s), %s bytes at %s, device %s, client %s: %s (%s)",
		       columns[AGE], columns[PROCESS], columns[PID], columns[LENGTH], columns[ADDRESS],
		       columns[DEVICE], columns[CLIENT], columns[CAUSE], columns[ERROR]);
	}
	if (count > SHOWN)
		report(WARN, "cat " DEBUGFS "/rejections", "%d rejections are older", count - SHOWN);
}
