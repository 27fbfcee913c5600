/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libiopm - device memory on PCI BARs, with the semantics of ibv_alloc_dm(3)
 *
 * The names and the order of arguments are those of <infiniband/verbs.h>, with
 * iopm_ for ibv_; the context is a BAR of io_peer_mem. See iopm_alloc_dm(3).
 */
#ifndef IOPM_H
#define IOPM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct ibv_pd;

/* An open BAR: see iopm_open_device(). */
struct iopm_context {
	int cmd_fd;
};

struct iopm_query_device_ex_input {
	uint32_t comp_mask;		/* must be 0 */
};

struct iopm_device_attr_ex {
	uint32_t comp_mask;		/* 0: no further members are valid */
	uint64_t max_dm_size;		/* size of the BAR's memory, in bytes */
	uint64_t free_dm_size;		/* free bytes */
	uint64_t largest_dm_size;	/* largest free range, in bytes */
	uint64_t dm_page_size;		/* allocations are rounded up to this */
};

struct iopm_alloc_dm_attr {
	size_t length;			/* Length of desired device memory buffer */
	uint32_t log_align_req;		/* Log base 2 of address alignment requirement */
	uint32_t comp_mask;		/* must be 0 */
};

enum iopm_dm_mask {
	IOPM_DM_MASK_HANDLE = 1 << 0,
};

struct iopm_dm {
	struct iopm_context *context;
	uint32_t comp_mask;
	uint32_t handle;		/* a file descriptor, for import and mmap(2) */
};

#pragma GCC visibility push(default)

struct iopm_context *iopm_open_device(const char *path);
int iopm_close_device(struct iopm_context *context);
int iopm_query_device_ex(struct iopm_context *context,
			 const struct iopm_query_device_ex_input *input,
			 struct iopm_device_attr_ex *attr);

struct iopm_dm *iopm_alloc_dm(struct iopm_context *context, struct iopm_alloc_dm_attr *attr);
int iopm_free_dm(struct iopm_dm *dm);
int iopm_memcpy_to_dm(struct iopm_dm *dm, uint64_t dm_offset, const void *host_addr,
		      size_t length);
int iopm_memcpy_from_dm(void *host_addr, struct iopm_dm *dm, uint64_t dm_offset,
			size_t length);
struct iopm_dm *iopm_import_dm(struct iopm_context *context, uint32_t dm_handle);
void iopm_unimport_dm(struct iopm_dm *dm);

struct ibv_mr *iopm_reg_dm_mr(struct ibv_pd *pd, struct iopm_dm *dm, uint64_t dm_offset,
			      size_t length, unsigned int access);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* IOPM_H */
