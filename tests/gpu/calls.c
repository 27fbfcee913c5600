// SPDX-License-Identifier: GPL-2.0
/*
 * calls WAY - allocates and frees GPU memory in all ways, by functions got by WAY (cuda.h)
 *
 * Prints what it does, for the test to compare with what was named. With "none" it looks for the driver's
 * functions where there is none.
 */
#include <err.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"

#define MIB (1ULL << 20)
#define MUST(call) ((call) ? errx(1, "line %d: %s", __LINE__, #call) : (void)0)

static void say(const char *what, cu_ptr at, size_t size)
{
	printf("%s %#llx %zu\n", what, at, size);
	fflush(stdout);
}

static void allocations(int twins)
{
	cu_ptr at[8], small[3];
	size_t pitch;

	MUST(cuda.cuMemAlloc(&at[0], 3 * MIB));
	MUST(cuda.cuMemAllocPitch(&at[1], &pitch, 1000, 1000, 4));
	MUST(cuda.cuMemAllocAsync(&at[2], MIB, NULL));
	MUST(cuda.cuMemAllocFromPoolAsync(&at[3], 64 << 10, NULL, NULL));
	say("allocated", at[0], 3 * MIB);
	say("allocated", at[1], 1024 * 1000);
	say("allocated", at[2], MIB);
	say("allocated", at[3], 64 << 10);
	/* In one page of the driver: it has its name as long as one of them is there. */
	for (int i = 0; i < 3; i++)
		MUST(cuda.cuMemAlloc(&small[i], 700));
	say("small", small[0], 3 * 1024);
	MUST(cuda.cuMemFree(small[1]));
	MUST(cuda.cuMemFree(small[0]));
	MUST(cuda.cuMemFree(small[2]));
	MUST(!cuda.cuMemFree(12345));
	MUST(cuda.cuMemFree(at[0]));
	MUST(cuda.cuMemFree(at[1]));
	MUST(cuda.cuMemFreeAsync(at[2], NULL));
	MUST(cuda.cuMemFreeAsync(at[3], NULL));
	if (cuda.per_thread_calls() != (twins ? 4 : 0))
		errx(1, "%u calls of the functions of per-thread streams", cuda.per_thread_calls());
	/* With a context; that of others stays. */
	MUST(cuda.cuMemAlloc(&at[4], MIB));
	MUST(cuda.cuCtxSetCurrent((void *)2));
	MUST(cuda.cuMemAlloc(&at[5], MIB));
	MUST(cuda.cuCtxDestroy((void *)2));
	MUST(cuda.cuCtxSetCurrent((void *)1));
	MUST(cuda.cuDevicePrimaryCtxRelease(0));
	say("kept", at[4], MIB);
	MUST(cuda.cuDevicePrimaryCtxReset(0));
}

/* Chunks at consecutive addresses grow to one range, and a hole makes two of it. */
static void virtual_memory(size_t chunk)
{
	void *handles[4];
	cu_ptr at;

	MUST(cuda.cuMemAddressReserve(&at, 4 * chunk, 0, 0, 0));
	for (int i = 0; i < 4; i++) {
		int order[] = { 1, 0, 3, 2 };

		MUST(cuda.cuMemCreate(&handles[i], chunk, NULL, 0));
		MUST(cuda.cuMemMap(at + order[i] * chunk, chunk, 0, handles[i], 0));
		MUST(cuda.cuMemRelease(handles[i]));
	}
	say("joined", at, 4 * chunk);
	MUST(cuda.cuMemUnmap(at + chunk, chunk));
	say("left", at, chunk);
	say("left", at + 2 * chunk, 2 * chunk);
	MUST(cuda.cuMemUnmap(at, chunk));
	MUST(cuda.cuMemUnmap(at + 2 * chunk, 2 * chunk));
	MUST(cuda.cuMemAddressFree(at, 4 * chunk));
}

static void *thread(void *arg)
{
	for (int i = 0; i < 50; i++) {
		cu_ptr at;

		MUST(cuda.cuMemAllocAsync(&at, 1 << (10 + (i + (uintptr_t)arg) % 12), NULL));
		MUST(cuda.cuMemFreeAsync(at, NULL));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	pthread_t threads[16];
	int status;

	if (!strcmp(way, "none"))
		return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") || dlsym(RTLD_DEFAULT, "ibv_reg_mr");
	cuda_open(way);
	allocations(strstr(way, "ptsz") != NULL);
	virtual_memory(2 * MIB);
	virtual_memory(20 * MIB);
	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i);
	/* The child has no GPU, while other threads of its parent allocate. */
	if (!fork()) {
		cu_ptr at;

		_exit(!cuda.cuMemAlloc(&at, MIB) || !cuda.cuMemFree(12345));
	}
	if (wait(&status) < 0 || status)
		errx(1, "the child: %#x", status);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	puts("end");
	return 0;
}
