/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What applications look at before they use memory of a GPU, looked at in the same way. */
#ifndef PROBES_H
#define PROBES_H

#include <stddef.h>

#include "stack.h"

enum look_kind {
	ANY_FILE,	/* one of the files exists */
	ANY_DIRECTORY,	/* one of the directories has a subdirectory */
	ANY_SYMBOL,	/* a line of /proc/kallsyms has one of the texts */
	ALL_SYMBOLS,	/* the lines of /proc/kallsyms have all of the texts */
	BOOT_CONFIG,	/* /boot/config-RELEASE has all of the lines */
	ANY_CONFIG,	/* the first configuration of the kernel in many places has all of them */
	DEVICE_NAME,	/* the name of an RDMA device has one of the texts */
	IMPORT,		/* an RDMA device imports dma-bufs */
	VARIABLE_IS,	/* the environment variable begins with the text after it */
	VARIABLE_IS_NOT,	/* the opposite, also without the variable */
	NOTHING,	/* it registers by address, whatever there is */
	OF_THE_GPU,	/* only the library of the GPU answers */
};

#define LOOK_TEXTS 4

struct look {
	enum look_kind kind;
	const char *texts[LOOK_TEXTS];
};

enum finding {
	MISSING,
	FOUND,
	NOTHING_THERE,	/* the file to look into does not exist */
	NOT_KNOWN,	/* iopm cannot look */
};

/* Looks, and writes what was looked at, and what was found, to @text. */
enum finding look_at(const struct look *look, const struct adapters *adapters, char *text,
		     size_t size);

#endif /* PROBES_H */
