/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libiopm - device memory on PCI BARs, with the semantics of ibv_alloc_dm(3)
 *
 * The names and the order of arguments are those of <infiniband/verbs.h>, with
 * iopm_ for ibv_; a device is a BAR of io_peer_mem. See iopm_alloc_dm(3) and
 * iopm_get_device_list(3). Allocators of other memory use iopm_register_dmabuf(3) alone.
 *
 * A structure that the library fills may get more members at its end. The functions with
 * a leading underscore take its size; call them through the inline functions of the same
 * name without it.
 */
#ifndef IOPM_H
#define IOPM_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. iopm_version() returns that of the library. */
#define IOPM_VERSION_MAJOR 1
#define IOPM_VERSION_MINOR 0
#define IOPM_VERSION_PATCH 0
#define IOPM_VERSION "1.0.0"
#define IOPM_MAKE_VERSION(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
#define IOPM_VERSION_NUMBER \
	IOPM_MAKE_VERSION(IOPM_VERSION_MAJOR, IOPM_VERSION_MINOR, IOPM_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct ibv_pd;

/* A BAR of the device list. */
struct iopm_device;

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

enum iopm_alloc_dm_mask {
	IOPM_ALLOC_DM_MASK_FLAGS = 1 << 0,	/* flags is valid */
};

enum iopm_alloc_dm_flags {
	IOPM_ALLOC_DM_ZERO = 1 << 0,	/* the memory is cleared */
};

struct iopm_alloc_dm_attr {
	size_t length;			/* Length of desired device memory buffer */
	uint32_t log_align_req;		/* Log base 2 of address alignment requirement */
	uint32_t comp_mask;		/* IOPM_ALLOC_DM_MASK_*, of the members below */
	uint32_t flags;			/* IOPM_ALLOC_DM_* */
};

enum iopm_dm_mask {
	IOPM_DM_MASK_HANDLE = 1 << 0,
};

struct iopm_dm {
	struct iopm_context *context;
	uint32_t comp_mask;
	uint32_t handle;		/* a file descriptor, for import and mmap(2) */
};

/* The address of a PCI function. */
struct iopm_pci_address {
	uint32_t domain;
	uint32_t bdf;			/* bus << 8 | device << 3 | function */
};

/* In comp_mask of struct iopm_dm_attr: the members that are valid. */
enum iopm_dm_attr_mask {
	IOPM_DM_ATTR_MMAP_WC = 1 << 0,
};

struct iopm_dm_attr {
	uint32_t comp_mask;		/* IOPM_DM_ATTR_* */
	uint32_t bar;			/* number of the BAR */
	struct iopm_pci_address function;
	uint64_t length;		/* bytes, as requested */
	uint64_t size;			/* bytes that can be mapped: whole pages */
	uint64_t bar_offset;		/* offset in bytes from the start of the BAR */
	/* With IOPM_DM_ATTR_MMAP_WC: added to an offset of mmap(2), for combined writes. */
	uint64_t mmap_wc;
};

struct iopm_range {
	uint32_t comp_mask;		/* 0: no further members are valid */
	uint32_t reserved;
	uint64_t bar_offset;		/* offset in bytes from the start of the BAR */
	uint64_t length;		/* bytes to the end of the mapping */
};

/* In comp_mask of struct iopm_nearest: the valid results. */
enum iopm_nearest_mask {
	IOPM_NEAREST_DISTANCE = 1 << 0,
	IOPM_NEAREST_PROVIDER = 1 << 1,
};

struct iopm_nearest {
	uint32_t comp_mask;		/* IOPM_NEAREST_* */
	uint32_t distance;		/* of the BAR, with IOPM_NEAREST_DISTANCE */
	/* With IOPM_NEAREST_PROVIDER: the nearest function with peer-to-peer memory. */
	uint32_t provider_distance;
	struct iopm_pci_address provider;
};

#pragma GCC visibility push(default)

const char *iopm_version(void);

struct iopm_device **iopm_get_device_list(int *num_devices);
void iopm_free_device_list(struct iopm_device **list);
const char *iopm_get_device_name(struct iopm_device *device);
const char *iopm_get_device_path(struct iopm_device *device);
int iopm_get_device_address(struct iopm_device *device, struct iopm_pci_address *address);

struct iopm_context *iopm_open_device(struct iopm_device *device);
struct iopm_context *iopm_open_path(const char *path);
int iopm_close_device(struct iopm_context *context);
int _iopm_query_device_ex(struct iopm_context *context,
			  const struct iopm_query_device_ex_input *input,
			  struct iopm_device_attr_ex *attr, size_t attr_size);
int _iopm_query_nearest(struct iopm_context *context, const struct iopm_pci_address *device,
			struct iopm_nearest *nearest, size_t nearest_size);
int _iopm_query_range(struct iopm_context *context, const void *addr,
		      struct iopm_range *range, size_t range_size);

struct iopm_dm *iopm_alloc_dm(struct iopm_context *context, struct iopm_alloc_dm_attr *attr);
int iopm_free_dm(struct iopm_dm *dm);
int iopm_memcpy_to_dm(struct iopm_dm *dm, uint64_t dm_offset, const void *host_addr,
		      size_t length);
int iopm_memcpy_from_dm(void *host_addr, struct iopm_dm *dm, uint64_t dm_offset,
			size_t length);
struct iopm_dm *iopm_import_dm(struct iopm_context *context, uint32_t dm_handle);
void iopm_unimport_dm(struct iopm_dm *dm);
int _iopm_query_dm(struct iopm_dm *dm, struct iopm_dm_attr *attr, size_t attr_size);
int iopm_export_dmabuf(struct iopm_dm *dm, uint64_t dm_offset, size_t length);

struct ibv_mr *iopm_reg_dm_mr(struct ibv_pd *pd, struct iopm_dm *dm, uint64_t dm_offset,
			      size_t length, unsigned int access);

/* Memory that is a part of a dma-buf of any driver. */
int iopm_register_dmabuf(const void *addr, size_t length, int fd, uint64_t offset);
int iopm_unregister_dmabuf(const void *addr, size_t length);

#pragma GCC visibility pop

static inline int iopm_query_device_ex(struct iopm_context *context,
				       const struct iopm_query_device_ex_input *input,
				       struct iopm_device_attr_ex *attr)
{
	return _iopm_query_device_ex(context, input, attr, sizeof(*attr));
}

static inline int iopm_query_nearest(struct iopm_context *context,
				     const struct iopm_pci_address *device,
				     struct iopm_nearest *nearest)
{
	return _iopm_query_nearest(context, device, nearest, sizeof(*nearest));
}

static inline int iopm_query_range(struct iopm_context *context, const void *addr,
				   struct iopm_range *range)
{
	return _iopm_query_range(context, addr, range, sizeof(*range));
}

static inline int iopm_query_dm(struct iopm_dm *dm, struct iopm_dm_attr *attr)
{
	return _iopm_query_dm(dm, attr, sizeof(*attr));
}

#ifdef __cplusplus
}
#endif

#endif /* IOPM_H */
