// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"

const char *sys_root = "";

static void vpath(char path[PATH_MAX], const char *format, va_list args)
{
	int n = snprintf(path, PATH_MAX, "%s", sys_root);

	if (n < PATH_MAX)
		vsnprintf(path + n, PATH_MAX - n, format, args);
}

/* Writes the path of the caller's arguments to @path. */
#define PATH(path, format)				\
	do {						\
		va_list args_;				\
							\
		va_start(args_, format);		\
		vpath(path, format, args_);		\
		va_end(args_);				\
	} while (0)

void sys_path(char path[PATH_MAX], const char *format, ...)
{
	PATH(path, format);
}

FILE *sys_open(const char *format, ...)
{
	char path[PATH_MAX];

	PATH(path, format);
	return fopen(path, "re");
}

bool sys_line(char *line, size_t size, const char *format, ...)
{
	char path[PATH_MAX];
	FILE *f;
	bool ok;

	PATH(path, format);
	line[0] = 0;
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(line, (int)size, f);
	fclose(f);
	if (!ok)
		line[0] = 0;
	line[strcspn(line, "\n")] = 0;
	return ok;
}

struct release sys_release(void)
{
	struct release release = { 0 };

	sys_line(release.name, sizeof(release.name), "/proc/sys/kernel/osrelease");
	sscanf(release.name, "%d.%d", &release.major, &release.minor);
	return release;
}

long long sys_number(long long otherwise, const char *format, ...)
{
	char path[PATH_MAX], line[64], *end;
	long long number;

	PATH(path, format);
	/* The root is in the path already. */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return otherwise;
	line[n] = 0;
	errno = 0;
	number = strtoll(line, &end, 0);
	return end == line || errno ? otherwise : number;
}

bool sys_exists(const char *format, ...)
{
	char path[PATH_MAX];

	PATH(path, format);
	return !access(path, F_OK);
}

int sys_write(const char *text, const char *format, ...)
{
	char path[PATH_MAX];
	int fd, error = 0;

	PATH(path, format);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

bool output_option(int argc, char **argv, const char **path)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ 0 },
	};
	int c;

	*path = NULL;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'o')
			return false;
		*path = optarg;
	}
	return optind == argc;
}

/* Returns whether the file is there and none that another one can take the place of: a device, a pipe. */
static bool is_special(const char *path)
{
	struct stat status;

	return !stat(path, &status) && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static bool is_link(const char *path)
{
	struct stat status;

	return !lstat(path, &status) && S_ISLNK(status.st_mode);
}

static int write_to(const char *path, void (*print)(void))
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0) {
		print();
		if (!ferror(stdout) && !fflush(stdout) && !close(fd))
			return 0;
	}
	warn("%s", path);
	return 1;
}

int output_to(const char *path, void (*print)(void))
{
	char new[PATH_MAX], target[PATH_MAX];
	int fd;

	/* Of a link the target counts. It may have to be made, or have no path, as a pipe. */
	if (is_special(path) || (is_link(path) && !realpath(path, target)))
		return write_to(path, print);
	if (is_link(path))
		path = target;
	if (snprintf(new, sizeof(new), "%s.XXXXXX", path) >= (int)sizeof(new)) {
		errno = ENAMETOOLONG;
		warn("%s", path);
		return 1;
	}
	fd = mkstemp(new);
	if (fd < 0) {
		warn("%s", path);
		return 1;
	}
	if (fchmod(fd, 0644) || dup2(fd, STDOUT_FILENO) < 0)
		goto fail;
	print();
	if (ferror(stdout) || fflush(stdout) || close(fd) || rename(new, path))
		goto fail;
	return 0;
fail:
	warn("%s", path);
	unlink(new);
	return 1;
}

bool sys_target(char *name, size_t size, const char *format, ...)
{
	char path[PATH_MAX], target[PATH_MAX], *last;
	ssize_t n;

	PATH(path, format);
	name[0] = 0;
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = 0;
	last = strrchr(target, '/');
	snprintf(name, size, "%s", last ? last + 1 : target);
	return true;
}

bool sys_real(char path[PATH_MAX], const char *format, ...)
{
	char link[PATH_MAX];

	PATH(link, format);
	return realpath(link, path);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

struct sys_list sys_list(const char *format, ...)
{
	struct sys_list list = { 0 };
	char path[PATH_MAX];

	PATH(path, format);
	list.count = scandir(path, &list.entries, is_visible, alphasort);
	if (list.count < 0)
		list.count = 0;
	return list;
}

void sys_list_free(struct sys_list *list)
{
	for (int i = 0; i < list->count; i++)
		free(list->entries[i]);
	if (list->count)
		free(list->entries);
	list->count = 0;
}
