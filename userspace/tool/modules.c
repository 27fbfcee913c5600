// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Loading and unloading of the modules. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modules.h"
#include "stack.h"
#include "sys.h"

extern char **environ;

bool module_load(const char *module)
{
	char *const argv[] = { "/sbin/modprobe", (char *)module, NULL };
	int error, status = -1;
	pid_t pid;

	if (module_loaded(module))
		return false;
	/* Another root is no machine. */
	if (sys_root[0])
		errx(1, "%s is not loaded: modprobe %s", module, module);
	error = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
	if (error) {
		errno = error;
		err(1, "%s", argv[0]);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		errx(1, "%s is not loaded, and modprobe has failed", module);
	return true;
}

/* Returns whether a file of modules-load.d(5) in this directory names the module. */
static bool named_in(const char *dir, const char *module)
{
	struct sys_list files = sys_list("%s/modules-load.d", dir);
	bool found = false;
	char line[128];

	for (int i = 0; i < files.count; i++) {
		FILE *f = sys_open("%s/modules-load.d/%s", dir, files.entries[i]->d_name);

		while (f && !found && fgets(line, sizeof(line), f)) {
			line[strcspn(line, " \t\n")] = 0;
			found = !strcmp(line, module);
		}
		if (f)
			fclose(f);
	}
	sys_list_free(&files);
	return found;
}

/* Returns whether the administrator has the module loaded at boot. */
static bool loaded_at_boot(const char *module)
{
	return named_in("/etc", module) || named_in("/run", module) || named_in("/usr/local/lib", module) ||
	       named_in("/usr/lib", module);
}

/*
 * Returns whether the parameters of io_peer_mem name more than the functions that are bound one by one:
 * functions that may come later, or memory of other drivers.
 */
static bool configured(void)
{
	static const char *const names[] = { "ids", "devices", "mmio", "p2pmem" };
	char value[64];

	for (int i = 0; i < 4; i++) {
		sys_line(value, sizeof(value), "/sys/module/io_peer_mem/parameters/%s", names[i]);
		if (value[0] && (i < 2 || strchr("1yY", value[0])))
			return true;
	}
	return false;
}

static bool has_functions(void)
{
	struct sys_list entries = sys_list("/sys/bus/pci/drivers/io_peer_mem");
	bool found = false;

	/* Functions are the only names with a colon. */
	for (int i = 0; i < entries.count; i++)
		found |= strchr(entries.entries[i]->d_name, ':') != NULL;
	sys_list_free(&entries);
	return found;
}

/* Returns whether the module is gone. One that is in use stays. */
static bool unload(const char *module)
{
	return !sys_root[0] && !loaded_at_boot(module) && !syscall(SYS_delete_module, module, O_NONBLOCK);
}

void modules_unload_unused(bool core)
{
	if (!has_functions() && !configured() && unload("io_peer_mem") && core)
		unload("ib_peer_mem");
}
