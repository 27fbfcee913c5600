/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A transfer by RDMA into memory and back, with the bytes compared. */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <stdbool.h>

struct transfer {
	bool ok;
	char text[512];		/* what was done, or what failed */
};

/*
 * Maps memory of the file @path, registers it on the RDMA device @adapter, writes to it over
 * loop-back, reads it back and compares. In a child process: whatever happens ends there.
 */
void transfer_run(struct transfer *transfer, const char *adapter, const char *path);

#endif /* TRANSFER_H */
