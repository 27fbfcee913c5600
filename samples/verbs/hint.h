/* SPDX-License-Identifier: GPL-2.0 */
/* What to do about an error, for whoever reads it on a terminal. */
#ifndef HINT_H
#define HINT_H

#include <errno.h>
#include <stdio.h>

/* @error: of opening the character device of a BAR. */
static inline void hint_open(int error)
{
	const char *hint = NULL;

	switch (error) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		hint = "is io_peer_mem loaded with the ids= of this function? \"iopm list\" shows "
		       "the BARs there are, the kernel log why others are not";
		break;
	case EACCES:
	case EPERM:
		hint = "are you in the group rdma, and did \"make install-udev\" give it the "
		       "devices?";
		break;
	case ENOTTY:
		hint = "that is no BAR of io_peer_mem";
		break;
	}
	if (hint)
		fprintf(stderr, "  %s\n", hint);
}

/* @error: of registering memory. */
static inline void hint_register(int error)
{
	const char *hint = NULL;

	switch (error) {
	case EFAULT:
		hint = "is ib_peer_mem loaded, and all of the range mapped, by this process and to "
		       "be written? The kernel log may say more";
		break;
	case ENOMEM:
		hint = "of host memory \"ulimit -l\" says how much may be registered";
		break;
	case EREMOTEIO:
	case EOPNOTSUPP:
		hint = "this adapter cannot reach that memory: the kernel log says why, \"iopm "
		       "nearest\" what it can reach";
		break;
	}
	if (hint)
		fprintf(stderr, "  %s\n", hint);
}

#endif /* HINT_H */
