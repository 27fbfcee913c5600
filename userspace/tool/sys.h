/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Files of /sys, /proc, /dev and /boot, below another root for tests (--sysroot). */
#ifndef SYS_H
#define SYS_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The root: "" or a directory. */
extern const char *sys_root;

#define PRINTF(text, first) __attribute__((__format__(printf, text, first)))

/* Writes the path below the root to @path. */
PRINTF(2, 3) void sys_path(char path[PATH_MAX], const char *format, ...);

/* Opens a file for reading; NULL with errno. */
PRINTF(1, 2) FILE *sys_open(const char *format, ...);

/* Reads the first line, without its end. Returns false, with an empty line, if it cannot. */
PRINTF(3, 4) bool sys_line(char *line, size_t size, const char *format, ...);

/* The running kernel. Without the file in /proc the name is empty, and the numbers are 0. */
struct release {
	/* 7.3.4+deb13-amd64 */
	char name[128];
	int major, minor;
};
struct release sys_release(void);

/* Returns the number in a file, in decimal or after 0x; @otherwise if there is none. */
PRINTF(2, 3) long long sys_number(long long otherwise, const char *format, ...);

PRINTF(1, 2) bool sys_exists(const char *format, ...);

/* Writes @text to a file. Returns 0 or an errno. */
PRINTF(2, 3) int sys_write(const char *text, const char *format, ...);

/* Parses a command line whose only option is --output FILE. Returns false if it is wrong. */
bool output_option(int argc, char **argv, const char **path);

/*
 * Has @print write to @path by standard output: to a device or a pipe, or to a new file that takes the place
 * of a regular one, or of the target of a link, once it is complete. Not below another root. Returns the
 * exit status.
 */
int output_to(const char *path, void (*print)(void));

/* Reads the last component of a link's target. */
PRINTF(3, 4) bool sys_target(char *name, size_t size, const char *format, ...);

/* Resolves all links. The result begins with the root. */
PRINTF(2, 3) bool sys_real(char path[PATH_MAX], const char *format, ...);

/* Lists a directory, sorted, without hidden files. Returns the number of entries, 0 without it. */
struct sys_list {
	struct dirent **entries;
	int count;
};
PRINTF(1, 2) struct sys_list sys_list(const char *format, ...);
void sys_list_free(struct sys_list *list);

#endif /* SYS_H */
