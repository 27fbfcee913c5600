// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * libgpu_names.so - names GPU memory as dma-bufs, so that ibv_reg_mr(3) registers it by address
 *
 * LD_PRELOAD=libgpu_names.so PROGRAM
 *
 * Shows what an allocator of GPU memory has to do for ib_peer_mem: when it maps memory it gets the
 * dma-buf of the driver, and calls iopm_register_dmabuf(3); before it unmaps it, it calls
 * iopm_unregister_dmabuf(3). This library does so in wrappers of
 *
 *	cuMemMap, cuMemUnmap	CUDA's virtual memory, by cuMemGetHandleForAddressRange
 *	hipMalloc, hipFree	HIP, by hsa_amd_portable_export_dmabuf
 *
 * It was written from the public headers of CUDA 12 and ROCm 6, and has been run with libraries that
 * stand for them only: no GPU was there. It does not see calls of functions that a program gets from
 * dlsym() or cuGetProcAddress(), as those of CUDA's runtime.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iopm.h>

#define EXPORTED __attribute__((visibility("default")))

/* A function of the driver, behind this library. Without it the program would not have been linked. */
static void *next(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (!function) {
		fprintf(stderr, "gpu_names: no function %s\n", name);
		abort();
	}
	return function;
}

/*
 * Names @size bytes at @addr and closes @fd. Memory without a name is as useful as before, so an error
 * is no error of the allocation.
 */
static int name(const void *addr, size_t size, int fd, uint64_t offset)
{
	int error = iopm_register_dmabuf(addr, size, fd, offset);

	close(fd);
	if (error && getenv("GPU_NAMES_DEBUG"))
		fprintf(stderr, "gpu_names: %zu bytes have no name: %s\n", size, strerror(error));
	return error;
}

/* --- CUDA: the types of cuda.h that the wrappers need --- */

typedef int CUresult;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;

#define CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD 1

EXPORTED CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			unsigned long long) = next("cuMemMap");
	CUresult (*export)(void *, CUdeviceptr, size_t, int, unsigned long long) =
		dlsym(RTLD_NEXT, "cuMemGetHandleForAddressRange");
	CUresult result = map(ptr, size, offset, handle, flags);
	int fd = -1;

	/* The dma-buf begins at @ptr. Drivers before CUDA 11.7 and some GPUs have none. */
	if (!result && export && !export(&fd, ptr, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		name((void *)(uintptr_t)ptr, size, fd, 0);
	return result;
}

EXPORTED CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult (*unmap)(CUdeviceptr, size_t) = next("cuMemUnmap");

	/* Other memory may get the addresses as soon as they are unmapped. */
	iopm_unregister_dmabuf((void *)(uintptr_t)ptr, size);
	return unmap(ptr, size);
}

/* --- HIP --- */

typedef int hipError_t;

/* For hipFree(), which does not get the size. */
struct allocation {
	struct allocation *next;
	void *addr;
	size_t size;
};

static struct allocation *allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void name_allocation(void *addr, size_t size)
{
	/* Of libhsa-runtime64.so, which libamdhip64.so needs. */
	int (*export)(const void *, size_t, int *, uint64_t *) =
		dlsym(RTLD_NEXT, "hsa_amd_portable_export_dmabuf");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct allocation *new;
	uint64_t offset;
	int fd;

	/* Memory of the GPU is allocated in pages, but the dma-buf may begin before it. */
	size = (size + page - 1) / page * page;
	if (!export || export(addr, size, &fd, &offset))
		return;
	if (name(addr, size, fd, offset))
		return;
	new = malloc(sizeof(*new));
	if (!new) {
		iopm_unregister_dmabuf(addr, size);
		return;
	}
	pthread_mutex_lock(&lock);
	*new = (struct allocation){ allocations, addr, size };
	allocations = new;
	pthread_mutex_unlock(&lock);
}

EXPORTED hipError_t hipMalloc(void **addr, size_t size)
{
	hipError_t (*allocate)(void **, size_t) = next("hipMalloc");
	hipError_t result = allocate(addr, size);

	if (!result && *addr)
		name_allocation(*addr, size);
	return result;
}

EXPORTED hipError_t hipFree(void *addr)
{
	hipError_t (*release)(void *) = next("hipFree");
	struct allocation **at, *old;

	pthread_mutex_lock(&lock);
	for (at = &allocations; *at && (*at)->addr != addr; at = &(*at)->next)
		;
	old = *at;
	if (old)
		*at = old->next;
	pthread_mutex_unlock(&lock);
	if (old)
		iopm_unregister_dmabuf(old->addr, old->size);
	free(old);
	return release(addr);
}
