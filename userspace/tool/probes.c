// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probes.h"
#include "sys.h"

/* A text that grows, and is cut where it does not fit. */
struct line {
	char *text;
	size_t size;
};

PRINTF(2, 3) static void add(struct line *line, const char *format, ...)
{
	size_t length = strlen(line->text);
	va_list args;

	va_start(args, format);
	vsnprintf(line->text + length, line->size - length, format, args);
	va_end(args);
}

static int count(const struct look *look)
{
	int n = 0;

	while (n < LOOK_TEXTS && look->texts[n])
		n++;
	return n;
}

/* Adds "A, B or C". */
static void add_texts(struct line *line, const struct look *look, const char *last)
{
	int n = count(look);

	for (int i = 0; i < n; i++)
		add(line, "%s%s", i == 0 ? "" : i == n - 1 ? last : ", ", look->texts[i]);
}

static enum finding any_file(const struct look *look, struct line *line)
{
	for (int i = 0; i < count(look); i++) {
		if (!sys_exists("%s", look->texts[i]))
			continue;
		add(line, "%s exists", look->texts[i]);
		return FOUND;
	}
	add(line, "there is no ");
	add_texts(line, look, " or ");
	return MISSING;
}

static enum finding any_directory(const struct look *look, struct line *line)
{
	for (int i = 0; i < count(look); i++) {
		struct sys_list list = sys_list("%s", look->texts[i]);
		bool found = false;

		for (int j = 0; j < list.count && !found; j++) {
			found = sys_exists("%s/%s/.", look->texts[i], list.entries[j]->d_name);
			if (found)
				add(line, "%s has the directory %s", look->texts[i],
				    list.entries[j]->d_name);
		}
		sys_list_free(&list);
		if (found)
			return FOUND;
	}
	add(line, "there is no directory in ");
	add_texts(line, look, " or ");
	return MISSING;
}

/*
 * Marks the texts that lines of a file have: anywhere, or (@whole) as the whole line. Returns their
 * number.
 */
static int find_lines(FILE *f, const struct look *look, bool whole, bool found[LOOK_TEXTS])
{
	char *line = NULL;
	size_t size = 0;
	int n = 0;

	while (n < count(look) && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		for (int i = 0; i < count(look); i++) {
			if (found[i] || (whole ? strcmp(line, look->texts[i]) != 0 :
					 !strstr(line, look->texts[i])))
				continue;
			found[i] = true;
			n++;
		}
	}
	free(line);
	return n;
}

/* Adds those that were found, or not found. */
static void add_marked(struct line *line, const struct look *look, const bool found[LOOK_TEXTS],
		       bool which)
{
	const char *comma = "";

	for (int i = 0; i < count(look); i++) {
		if (found[i] != which)
			continue;
		add(line, "%s%s", comma, look->texts[i]);
		comma = ", ";
	}
}

static enum finding symbols(const struct look *look, struct line *line)
{
	bool found[LOOK_TEXTS] = { false };
	FILE *f = sys_open("/proc/kallsyms");
	int n;

	if (!f) {
		add(line, "/proc/kallsyms: %s", strerror(errno));
		return NOTHING_THERE;
	}
	n = find_lines(f, look, false, found);
	fclose(f);
	if (look->kind == ANY_SYMBOL ? n > 0 : n == count(look)) {
		add(line, "/proc/kallsyms has ");
		add_marked(line, look, found, true);
		return FOUND;
	}
	add(line, "/proc/kallsyms does not have ");
	add_marked(line, look, found, false);
	return MISSING;
}

/* Opens the first of the files of the kernel's configuration that is there. */
static FILE *open_config(bool all_places, char path[PATH_MAX])
{
	/* In the order of RCCL, but for /proc/config.gz. */
	static const char *const places[][2] = {
		{ "/boot/config-", "" }, { "/usr/src/linux-", "/.config" },
		{ "/usr/lib/modules/", "/config" }, { "/usr/lib/ostree-boot/config-", "" },
		{ "/usr/lib/kernel/config-", "" }, { "/usr/src/linux-headers-", "/.config" },
		{ "/lib/modules/", "/build/.config" },
	};
	struct release release = sys_release();

	for (size_t i = 0; i < (all_places ? sizeof(places) / sizeof(places[0]) : 1); i++) {
		FILE *f;

		snprintf(path, PATH_MAX, "%s%s%s", places[i][0], release.name, places[i][1]);
		f = sys_open("%s", path);
		if (f)
			return f;
	}
	return NULL;
}

static enum finding config(const struct look *look, struct line *line)
{
	bool found[LOOK_TEXTS] = { false };
	char path[PATH_MAX];
	FILE *f = open_config(look->kind == ANY_CONFIG, path);
	int n;

	if (!f && look->kind == ANY_CONFIG && sys_exists("/proc/config.gz")) {
		add(line, "the kernel's configuration is in /proc/config.gz, which iopm does not read");
		return NOT_KNOWN;
	}
	if (!f) {
		add(line, "there is no %s", look->kind == ANY_CONFIG ?
		    "file of the kernel's configuration" : path);
		return NOTHING_THERE;
	}
	n = find_lines(f, look, true, found);
	fclose(f);
	add(line, "%s %s ", path, n == count(look) ? "has" : "does not have");
	add_marked(line, look, found, n == count(look));
	return n == count(look) ? FOUND : MISSING;
}

static enum finding device_name(const struct look *look, const struct adapters *adapters,
				struct line *line)
{
	for (int i = 0; i < adapters->count; i++) {
		for (int j = 0; j < count(look); j++) {
			if (!strstr(adapters->list[i].name, look->texts[j]))
				continue;
			add(line, "%s is the name of an RDMA device that has %s",
			    adapters->list[i].name, look->texts[j]);
			return FOUND;
		}
	}
	add(line, "no RDMA device has a name with ");
	add_texts(line, look, " or ");
	return MISSING;
}

/* Returns the errno of the import of a descriptor that is none, or -1 if the device does not open. */
static int import_error(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_pd *pd;
	int error = -1;

	if (!context)
		return -1;
	pd = ibv_alloc_pd(context);
	if (pd) {
		struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);

		error = mr ? 0 : errno;
		if (mr)
			ibv_dereg_mr(mr);
		ibv_dealloc_pd(pd);
	}
	ibv_close_device(context);
	return error;
}

/* Drivers that import look at the descriptor, which is EBADF; the others refuse before. */
static enum finding import(const struct adapters *adapters, struct line *line)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	enum finding finding = MISSING;

	for (int i = 0; i < adapters->count; i++) {
		int error = -1;

		for (int j = 0; devices && devices[j]; j++)
			if (!strcmp(ibv_get_device_name(devices[j]), adapters->list[i].name))
				error = import_error(devices[j]);
		add(line, "%s%s %s", i ? ", " : "", adapters->list[i].name,
		    error == EBADF ? "imports dma-bufs" : error < 0 ? "cannot be opened" :
		    "imports no dma-bufs");
		if (error == EBADF)
			finding = FOUND;
		else if (error < 0 && finding == MISSING)
			finding = NOT_KNOWN;
	}
	if (!adapters->count)
		add(line, "there is no RDMA device that imports dma-bufs");
	if (devices)
		ibv_free_device_list(devices);
	return finding;
}

static enum finding variable(const struct look *look, struct line *line)
{
	const char *value = getenv(look->texts[0]);
	bool is = value && !strncmp(value, look->texts[1], strlen(look->texts[1]));

	if (value)
		add(line, "%s=%s in this environment", look->texts[0], value);
	else
		add(line, "%s is not set in this environment", look->texts[0]);
	return is == (look->kind == VARIABLE_IS) ? FOUND : MISSING;
}

enum finding look_at(const struct look *look, const struct adapters *adapters, char *text,
		     size_t size)
{
	struct line line = { text, size };

	text[0] = 0;
	switch (look->kind) {
	case ANY_FILE: return any_file(look, &line);
	case ANY_DIRECTORY: return any_directory(look, &line);
	case ANY_SYMBOL:
	case ALL_SYMBOLS: return symbols(look, &line);
	case BOOT_CONFIG:
	case ANY_CONFIG: return config(look, &line);
	case DEVICE_NAME: return device_name(look, adapters, &line);
	case IMPORT: return import(adapters, &line);
	case VARIABLE_IS:
	case VARIABLE_IS_NOT: return variable(look, &line);
	case NOTHING:
		add(&line, "looks at nothing, and registers by address");
		return FOUND;
	case OF_THE_GPU: break;
	}
	add(&line, "%s: only the library of the GPU answers", look->texts[0]);
	return NOT_KNOWN;
}
