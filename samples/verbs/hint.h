/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Prints what to do about an error, for a person at a terminal. */
#ifndef HINT_H
#define HINT_H

#include <errno.h>
#include <stdio.h>

/* @error: the errno of open() of a BAR's character device. */
static inline void hint_open(int error)
{
	const char *hint = NULL;

	switch (error) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		hint = "is the function bound (\"iopm bind\"), or io_peer_mem loaded with its ids=? \"iopm list\" "
		       "shows the BARs it serves; the kernel log says why it refused others";
		break;
	case EACCES:
	case EPERM:
		hint = "add the user to the group rdma, to which the udev rule of the package "
		       "ib-peer-mem-common gives the devices";
		break;
	case ENOTTY:
		hint = "the file is no BAR of io_peer_mem";
		break;
	}
	if (hint)
		fprintf(stderr, "  %s\n", hint);
}

#endif /* HINT_H */
