// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The functions that allocate and free: CUDA's driver, and AMD's HSA, by which HIP allocates. No GPU of
 * AMD was there to run it on.
 */
#include <unistd.h>

#include "gpu.h"

#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define CU_MEM_LOCATION_TYPE_DEVICE 1
#define CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD 1
/* Pools of the driver grow by so much, at a multiple of it. */
#define POOL_BLOCK (32ULL << 20)
#define HSA_AMD_MEMORY_POOL_INFO_LOCATION 17
#define HSA_AMD_MEMORY_POOL_LOCATION_GPU 1

/* Calls what is behind this library. */
#define CALL(name, ...) \
	({ \
		__typeof__(&name) next_ = NEXT(name); \
		next_ ? next_(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND; \
	})

#define EXPORT(fd, start, size) \
	CALL(cuMemGetHandleForAddressRange, fd, start, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)

/*
 * A dma-buf of CUDA begins where it is asked to. Fails for host memory, and in the child of a fork. Driver 580 fails
 * for less than a block of a pool that does not begin with one: then the dma-buf begins with the block. It has a
 * success without a descriptor if no memory is at the start, and crashes for a range beyond the memory of a pool.
 */
static int export_cuda(uint64_t start, uint64_t size, uint64_t *offset)
{
	int fd = -1;

	*offset = 0;
	if (!EXPORT(&fd, start, size))
		return fd;
	*offset = size < POOL_BLOCK ? start % POOL_BLOCK : 0;
	return !*offset || EXPORT(&fd, start - *offset, *offset + size) ? -1 : fd;
}

static void allocated(CUdeviceptr at, size_t size)
{
	struct span span = {
		.at = at,
		.size = size,
		/* The driver allocates in such units: what is exported is memory of the allocation's block. */
		.start = at / GRANULE * GRANULE,
		.end = in_whole(at + size, GRANULE),
		.export = export_cuda,
		.device = -1,
	};

	CALL(cuCtxGetCurrent, &span.context);
	/* A pool may be of another device than the context. */
	CALL(cuCtxGetDevice, &span.device);
	CALL(cuPointerGetAttribute, &span.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (NEXT(cuMemGetHandleForAddressRange))
		memory_add(span);
}

#define ARGUMENTS(...) __VA_ARGS__
#define AT(at_, size_) ((struct which) { .start = at_, .end = (at_) + (size_), .device = -1 })
#define ALL_OF(context_, device_) ((struct which) { .end = UINT64_MAX, .context = context_, .device = device_ })

/* The memory has no name from before the call on. If it is not @freed, what is still there is named again. */
#define FREES(name, parameters, arguments, which, freed) \
	EXPORTED CUresult name parameters \
	{ \
		struct spans taken = memory_take(which); \
		CUresult result = CALL(name, arguments); \
\
		memory_freed(&taken, freed); \
		return result; \
	}

#define ALLOCATES(name, parameters, arguments) \
	EXPORTED CUresult name parameters \
	{ \
		CUresult result = CALL(name, arguments); \
\
		if (!result && *at) \
			allocated(*at, size); \
		return result; \
	}

ALLOCATES(cuMemAlloc_v2, (CUdeviceptr *at, size_t size), ARGUMENTS(at, size))
ALLOCATES(cuMemAllocAsync, (CUdeviceptr *at, size_t size, CUstream stream), ARGUMENTS(at, size, stream))
ALLOCATES(cuMemAllocAsync_ptsz, (CUdeviceptr *at, size_t size, CUstream stream), ARGUMENTS(at, size, stream))
ALLOCATES(cuMemAllocFromPoolAsync, (CUdeviceptr *at, size_t size, CUmemoryPool pool, CUstream stream),
	  ARGUMENTS(at, size, pool, stream))
ALLOCATES(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *at, size_t size, CUmemoryPool pool, CUstream stream),
	  ARGUMENTS(at, size, pool, stream))

EXPORTED CUresult cuMemAllocPitch_v2(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int bytes)
{
	CUresult result = CALL(cuMemAllocPitch_v2, at, pitch, width, height, bytes);

	if (!result && *at)
		allocated(*at, *pitch * height);
	return result;
}

FREES(cuMemFree_v2, (CUdeviceptr at), ARGUMENTS(at), AT(at, 1), !result)
/* The stream may use the memory still; but the program registers it no more. */
FREES(cuMemFreeAsync, (CUdeviceptr at, CUstream stream), ARGUMENTS(at, stream), AT(at, 1), !result)
FREES(cuMemFreeAsync_ptsz, (CUdeviceptr at, CUstream stream), ARGUMENTS(at, stream), AT(at, 1), !result)

EXPORTED CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, unsigned long long handle,
			   unsigned long long flags)
{
	struct span span = {
		.at = at, .size = size, .start = at, .end = at + size,
		.export = export_cuda, .joins = true, .device = -1,
	};
	/* CUmemAllocationProp, and room for what comes to it. */
	struct { int type, handle_types, location_type, location; uint64_t rest[16]; } of;
	CUresult result = CALL(cuMemMap, at, size, offset, handle, flags);

	if (result)
		return result;
	if (!CALL(cuMemGetAllocationPropertiesFromHandle, &of, handle) &&
	    of.location_type == CU_MEM_LOCATION_TYPE_DEVICE)
		span.device = of.location;
	if (NEXT(cuMemGetHandleForAddressRange))
		memory_add(span);
	return result;
}

FREES(cuMemUnmap, (CUdeviceptr at, size_t size), ARGUMENTS(at, size), AT(at, size), !result)
FREES(cuMemAddressFree, (CUdeviceptr at, size_t size), ARGUMENTS(at, size), AT(at, size), !result)

/* --- all memory of a context, or of a device --- */

FREES(cuCtxDestroy_v2, (CUcontext context), ARGUMENTS(context), context ? ALL_OF(context, -1) : (struct which) { 0 },
      false)
FREES(cuDevicePrimaryCtxReset, (CUdevice device), ARGUMENTS(device), ALL_OF(NULL, device), false)
FREES(cuDevicePrimaryCtxReset_v2, (CUdevice device), ARGUMENTS(device), ALL_OF(NULL, device), false)

/*
 * The last release frees the memory, and the driver says only afterwards which one was the last: it counts the
 * retains of the program and of CUDA's runtime, which need not come by here, and a retain of this library's
 * would but put off the same question. Libraries retain and release while others register, so names stay
 * until it is known. Until then they keep the memory, and a program that registers it too late has an MR of
 * that memory, not of another's: who gets the addresses next names them anew.
 */
#define RELEASES_PRIMARY(name) \
	EXPORTED CUresult name(CUdevice device) \
	{ \
		CUresult result = CALL(name, device); \
		unsigned int flags; \
		int active = 0; \
\
		if (!result && (CALL(cuDevicePrimaryCtxGetState, device, &flags, &active) || !active)) \
			memory_check(ALL_OF(NULL, device)); \
		return result; \
	}

RELEASES_PRIMARY(cuDevicePrimaryCtxRelease)
RELEASES_PRIMARY(cuDevicePrimaryCtxRelease_v2)

/* --- HSA --- */

static int export_hsa(uint64_t start, uint64_t size, uint64_t *offset)
{
	__typeof__(&hsa_amd_portable_export_dmabuf) export = NEXT(hsa_amd_portable_export_dmabuf);
	int fd = -1;

	return !export || export((void *)(uintptr_t)start, size, &fd, offset) ? -1 : fd;
}

EXPORTED hsa_status_t hsa_amd_memory_pool_allocate(uint64_t pool, size_t size, uint32_t flags, void **at)
{
	__typeof__(&hsa_amd_memory_pool_allocate) next = NEXT(hsa_amd_memory_pool_allocate);
	__typeof__(&hsa_amd_memory_pool_get_info) get_info = NEXT(hsa_amd_memory_pool_get_info);
	hsa_status_t result = next ? next(pool, size, flags, at) : HSA_STATUS_ERROR;
	int location = -1;

	if (result || !get_info || !NEXT(hsa_amd_portable_export_dmabuf) ||
	    get_info(pool, HSA_AMD_MEMORY_POOL_INFO_LOCATION, &location) || location != HSA_AMD_MEMORY_POOL_LOCATION_GPU)
		return result;
	memory_add((struct span) {
		.at = (uintptr_t)*at, .size = size,
		.start = (uintptr_t)*at, .end = in_whole((uintptr_t)*at + size, sysconf(_SC_PAGESIZE)),
		.export = export_hsa, .device = -1,
	});
	return result;
}

FREES(hsa_amd_memory_pool_free, (void *at), ARGUMENTS(at), AT((uintptr_t)at, 1), !result)
FREES(hsa_memory_free, (void *at), ARGUMENTS(at), AT((uintptr_t)at, 1), !result)
