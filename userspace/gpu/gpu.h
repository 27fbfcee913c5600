/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libiopm-gpu.so - names the memory of GPUs as dma-bufs, so that ibv_reg_mr(3) registers it by address
 *
 * A library for LD_PRELOAD: functions of the GPU's driver and of libibverbs are found here first. It has
 * no constructor, prints nothing without IOPM_GPU_DEBUG, and no failure of it is one of the program.
 */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;
struct ibv_pd;

#define EXPORTED __attribute__((visibility("default")))

/* From the public headers of CUDA 13 and ROCm 7. */
typedef int CUresult, CUdevice, hsa_status_t;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUmemoryPool;

#define CUDA_ERROR_NOT_FOUND 500
#define HSA_STATUS_ERROR 0x1000

/* The functions in front of which this library is: result, name, the first version of CUDA, arguments. */
#define GPU_FUNCTIONS(F)                                                                                          \
	F(CUresult, cuGetProcAddress, 11030, (const char *, void **, int, uint64_t))                              \
	F(CUresult, cuGetProcAddress_v2, 12000, (const char *, void **, int, uint64_t, int *))                    \
	F(CUresult, cuMemAlloc_v2, 3020, (CUdeviceptr *, size_t))                                                 \
	F(CUresult, cuMemAllocPitch_v2, 3020, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))            \
	F(CUresult, cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream))                                    \
	F(CUresult, cuMemAllocAsync_ptsz, 11020, (CUdeviceptr *, size_t, CUstream))                               \
	F(CUresult, cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))              \
	F(CUresult, cuMemAllocFromPoolAsync_ptsz, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))         \
	F(CUresult, cuMemFree_v2, 3020, (CUdeviceptr))                                                            \
	F(CUresult, cuMemFreeAsync, 11020, (CUdeviceptr, CUstream))                                               \
	F(CUresult, cuMemFreeAsync_ptsz, 11020, (CUdeviceptr, CUstream))                                          \
	F(CUresult, cuMemMap, 10020, (CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long))       \
	F(CUresult, cuMemUnmap, 10020, (CUdeviceptr, size_t))                                                     \
	F(CUresult, cuMemAddressFree, 10020, (CUdeviceptr, size_t))                                               \
	F(CUresult, cuCtxDestroy_v2, 4000, (CUcontext))                                                           \
	F(CUresult, cuDevicePrimaryCtxReset, 7000, (CUdevice))                                                    \
	F(CUresult, cuDevicePrimaryCtxReset_v2, 11000, (CUdevice))                                                \
	F(CUresult, cuDevicePrimaryCtxRelease, 7000, (CUdevice))                                                  \
	F(CUresult, cuDevicePrimaryCtxRelease_v2, 11000, (CUdevice))                                              \
	F(hsa_status_t, hsa_amd_memory_pool_allocate, 0, (uint64_t, size_t, uint32_t, void **))                   \
	F(hsa_status_t, hsa_amd_memory_pool_free, 0, (void *))                                                    \
	F(hsa_status_t, hsa_memory_free, 0, (void *))                                                             \
	F(struct ibv_mr *, ibv_reg_mr, 0, (struct ibv_pd *, void *, size_t, int))                                 \
	F(struct ibv_mr *, ibv_reg_mr_iova, 0, (struct ibv_pd *, void *, size_t, uint64_t, int))                  \
	F(struct ibv_mr *, ibv_reg_mr_iova2, 0, (struct ibv_pd *, void *, size_t, uint64_t, unsigned int))

/* Those that it calls. */
#define GPU_CALLED(F)                                                                                             \
	F(CUresult, cuMemGetHandleForAddressRange, 0, (void *, CUdeviceptr, size_t, int, unsigned long long))     \
	F(CUresult, cuCtxGetCurrent, 0, (CUcontext *))                                                            \
	F(CUresult, cuCtxGetDevice, 0, (CUdevice *))                                                              \
	F(CUresult, cuPointerGetAttribute, 0, (void *, int, CUdeviceptr))                                         \
	F(CUresult, cuMemGetAllocationPropertiesFromHandle, 0, (void *, unsigned long long))                      \
	F(CUresult, cuDevicePrimaryCtxGetState, 0, (CUdevice, unsigned int *, int *))                             \
	F(hsa_status_t, hsa_amd_portable_export_dmabuf, 0, (const void *, size_t, int *, uint64_t *))             \
	F(hsa_status_t, hsa_amd_memory_pool_get_info, 0, (uint64_t, int, void *))                                 \
	F(struct ibv_mr *, ibv_reg_dmabuf_mr, 0, (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))

enum function_id {
#define F(result, name, version, arguments) FUNCTION_##name,
	GPU_FUNCTIONS(F) GPU_CALLED(F)
#undef F
};

#define F(result, name, version, arguments) result name arguments;
GPU_FUNCTIONS(F) GPU_CALLED(F)
#undef F

/* The function behind this library, or NULL; its library stays loaded from then on. */
void *gpu_next(enum function_id id);
#define NEXT(name) ((__typeof__(&name))gpu_next(FUNCTION_##name))

/*
 * Makes a dma-buf of memory; @start and @size are whole pages. Returns its descriptor or -1. Its functions
 * are known before there is a span: dlsym() waits for constructors, which may wait for the lock of the spans.
 */
typedef int export_fn(uint64_t start, uint64_t size, uint64_t *offset);

/* Memory that a program has allocated, or mapped. */
struct span {
	uint64_t start, end;	/* in whole GRANULEs, or pages */
	uint64_t at, size;	/* as allocated */
	export_fn *export;
	bool joins;		/* memory that follows in the address space can be in the same dma-buf */
	void *context;
	int device;
};

#define GRANULE 65536ULL

static inline uint64_t in_whole(uint64_t size, uint64_t unit)
{
	return (size + unit - 1) / unit * unit;
}

struct spans {
	struct span *at;
	size_t n, room;
};

/* Names new memory. */
void memory_add(struct span span);

/* Which memory: what @begins in a range, or that of a context or device (NULL, -1: of any). */
struct which {
	uint64_t start, end;
	void *context;
	int device;
};

/*
 * Removes the names of memory that is going to be freed. memory_freed() comes then: unless the memory
 * was @freed, it is named again, as far as it is there.
 */
struct spans memory_take(struct which which);
void memory_freed(struct spans *taken, bool freed);
/* Removes the names of what is not there any more. */
void memory_check(struct which which);

/* Some memory got no name: registrations look for it, and else take no lock here. */
extern bool memory_any_unnamed;

/* A dma-buf for a call. The thread is not cancelled before its end, and no other one forks. */
struct dma_buf {
	int fd;
	uint64_t offset;
	int error, cancel;	/* as they were */
};

/* Makes a dma-buf of a range of memory that the kernel has no name of, or returns false. */
bool memory_export(uint64_t at, size_t length, struct dma_buf *dma_buf);
void memory_exported(struct dma_buf *dma_buf);

#endif /* GPU_H */
