/* SPDX-License-Identifier: GPL-2.0 */
/* CUDA's driver as programs get it: each function by name, on one of these ways. */
#ifndef CUDA_H
#define CUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long cu_ptr;

/* Name, version, twin for streams of threads, the first version of CUDA, arguments. */
#define CUDA_FUNCTIONS(F) \
	F(cuInit, , , 2000, (unsigned int)) \
	F(cuDeviceGetDefaultMemPool, , , 11020, (void **, int)) \
	F(cuMemAlloc, _v2, , 3020, (cu_ptr *, size_t)) \
	F(cuMemAllocPitch, _v2, , 3020, (cu_ptr *, size_t *, size_t, size_t, unsigned int)) \
	F(cuMemAllocAsync, , _ptsz, 11020, (cu_ptr *, size_t, void *)) \
	F(cuMemAllocFromPoolAsync, , _ptsz, 11020, (cu_ptr *, size_t, void *, void *)) \
	F(cuMemFree, _v2, , 3020, (cu_ptr)) \
	F(cuMemFreeAsync, , _ptsz, 11020, (cu_ptr, void *)) \
	F(cuMemAddressReserve, , , 10020, (cu_ptr *, size_t, size_t, cu_ptr, unsigned long long)) \
	F(cuMemAddressFree, , , 10020, (cu_ptr, size_t)) \
	F(cuMemCreate, , , 10020, (void **, size_t, const void *, unsigned long long)) \
	F(cuMemRelease, , , 10020, (void *)) \
	F(cuMemMap, , , 10020, (cu_ptr, size_t, size_t, void *, unsigned long long)) \
	F(cuMemUnmap, , , 10020, (cu_ptr, size_t)) \
	F(cuMemcpyDtoH, _v2, , 3020, (void *, cu_ptr, size_t)) \
	F(cuCtxSetCurrent, , , 4000, (void *)) \
	F(cuCtxDestroy, _v2, , 4000, (void *)) \
	F(cuDevicePrimaryCtxRetain, , , 7000, (void **, int)) \
	F(cuDevicePrimaryCtxReset, _v2, , 11000, (int)) \
	F(cuDevicePrimaryCtxRelease, _v2, , 11000, (int))

static struct {
#define F(name, version, twin, since, arguments) int (*name) arguments;
	CUDA_FUNCTIONS(F)
#undef F
	unsigned int (*per_thread_calls)(void);
	void (*set_hook)(void (*hook)(void));	/* of the stand-in alone */
	int (*cuCtxCreate_v2)(void **, unsigned int, int);	/* newer ones have other arguments */
} cuda __attribute__((unused));

static inline void *cuda_must(void *found, const char *name)
{
	if (found && !dlerror())
		return found;
	fprintf(stderr, "no function %s\n", name);
	exit(1);
}

/*
 * @way: global (as a linked program finds them), dlsym, proc1, proc2; dlsym_ptsz, proc2_ptsz: those for
 * programs of per-thread streams.
 */
static inline void cuda_open(const char *way)
{
	void *library = NULL;
	int (*proc1)(const char *, void **, int, uint64_t) = NULL;
	int (*proc2)(const char *, void **, int, uint64_t, int *) = NULL;
	int twin = strstr(way, "ptsz") != NULL, status;

	library = cuda_must(dlopen("libcuda.so.1", RTLD_NOW | (*way == 'g' ? RTLD_GLOBAL : RTLD_LOCAL)), "libcuda.so.1");
	cuda.per_thread_calls = dlsym(library, "standin_per_thread_calls");
	cuda.set_hook = dlsym(library, "standin_set_hook");
	dlerror();
	cuda.cuCtxCreate_v2 = cuda_must(dlsym(library, "cuCtxCreate_v2"), "cuCtxCreate_v2");
	if (!strcmp(way, "global"))
		library = RTLD_DEFAULT;
	if (!strncmp(way, "dl", 2) || library == RTLD_DEFAULT) {
#define F(name, version, twin_, since, arguments) \
		cuda.name = cuda_must(dlsym(library, twin ? #name #version #twin_ : #name #version), #name);
		CUDA_FUNCTIONS(F)
#undef F
		return;
	}
	if (!strcmp(way, "proc1"))
		proc1 = cuda_must(dlsym(library, "cuGetProcAddress"), "cuGetProcAddress");
	else
		proc2 = cuda_must(dlsym(library, "cuGetProcAddress_v2"), "cuGetProcAddress_v2");
	/* As the runtime does: by the first one to the newest. */
	if (proc2)
		proc2("cuGetProcAddress", (void **)&proc2, 12000, 0, &status);
#define F(name, version, twin_, since, arguments) \
	if (proc1) \
		proc1(#name, (void **)&cuda.name, 11040, twin ? 2 : 0); \
	else \
		proc2(#name, (void **)&cuda.name, 12040, !strcmp(way, "proc2_ptsz") ? 2 : 0, &status); \
	cuda_must(cuda.name, #name);
	CUDA_FUNCTIONS(F)
#undef F
}

#endif /* CUDA_H */
