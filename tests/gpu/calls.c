// SPDX-License-Identifier: GPL-2.0
/*
 * calls WAY - allocates and frees GPU memory in all ways, by functions got by WAY (cuda.h)
 *
 * For CUDA's driver (scripts/gpu-check) and its stand-in, which has two devices, and races at its hook. Asks
 * /dev/ib_peer_mem for the names. With "none" it looks for the driver's functions where there is none.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ib_peer_mem.h>

#include "cuda.h"

#define MIB (1ULL << 20)
#define MUST(call) ((call) ? errx(1, "line %d: %s", __LINE__, #call) : (void)0)

static struct ib_peer_mem_name name_at(cu_ptr at)
{
	struct ib_peer_mem_name name = { .version = IB_PEER_MEM_NAME_VERSION, .addr = at };
	int control = open("/dev/ib_peer_mem", O_RDWR);

	if (control < 0)
		err(1, "/dev/ib_peer_mem");
	if (ioctl(control, IB_PEER_MEM_IOC_QUERY, &name))
		name.length = 0;
	close(control);
	return name;
}

/* Not so much has one name, in whole units of 64 KiB; 0: there is a name. */
static bool is_not_named(cu_ptr at, size_t size)
{
	struct ib_peer_mem_name name = name_at(at);

	return name.length != (size + 0xffff) / 0x10000 * 0x10000 || (size && name.addr != at);
}

static void *primary = (void *)1;	/* the context; the stand-in has it at the start */
static cu_ptr kept;

static void kept_has_its_name(void) { MUST(is_not_named(kept, 2 * MIB)); }

static void *map(cu_ptr at, size_t size, int device)
{
	int properties[8] = { 1, 0, 1, device };
	void *handle;

	MUST(cuda.cuMemCreate(&handle, size, properties, 0));
	MUST(cuda.cuMemMap(at, size, 0, handle, 0));
	MUST(cuda.cuMemRelease(handle));
	return handle;
}

/* What gets the addresses of a context that is gone. */
static void map_kept(void) { map(kept, 2 * MIB, 0); }

static void set_hook(void (*hook)(void))
{
	if (cuda.set_hook)
		cuda.set_hook(hook);
}

static void enter_primary(void)
{
	MUST(cuda.cuDevicePrimaryCtxRetain(&primary, 0));
	MUST(cuda.cuCtxSetCurrent(primary));
}

static void contexts(void)
{
	void *other;
	cu_ptr at;

	MUST(cuda.cuMemAlloc(&at, 2 * MIB));
	MUST(cuda.cuCtxCreate_v2(&other, 0, 0));
	MUST(cuda.cuMemAlloc(&kept, 2 * MIB));
	set_hook(map_kept);
	MUST(cuda.cuCtxDestroy(other));
	MUST(is_not_named(kept, cuda.set_hook ? 2 * MIB : 0));
	MUST(is_not_named(at, 2 * MIB));
	MUST(cuda.set_hook && cuda.cuMemUnmap(kept, 2 * MIB));
	MUST(cuda.cuCtxSetCurrent(primary));
	/* Of a retained context memory has its name all the time, and none after the last release. */
	kept = at;
	MUST(cuda.cuDevicePrimaryCtxRetain(&primary, 0));
	set_hook(kept_has_its_name);
	MUST(cuda.cuDevicePrimaryCtxRelease(0));
	MUST(is_not_named(kept, 2 * MIB));
	MUST(cuda.cuDevicePrimaryCtxRelease(0));
	MUST(is_not_named(kept, 0));
	enter_primary();
	MUST(cuda.cuMemAlloc(&at, MIB));
	MUST(cuda.cuDevicePrimaryCtxReset(0));
	enter_primary();
}

static void allocations(int twins)
{
	cu_ptr at[4], small[3];
	size_t pitch;
	void *pool;

	MUST(cuda.cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuda.cuMemAlloc(&at[0], 3 * MIB));
	MUST(cuda.cuMemAllocPitch(&at[1], &pitch, 1000, 1000, 4));
	MUST(cuda.cuMemAllocAsync(&at[2], MIB, NULL));
	MUST(cuda.cuMemAllocFromPoolAsync(&at[3], 64 << 10, pool, NULL));
	MUST(is_not_named(at[0], 3 * MIB));
	MUST(is_not_named(at[1], 1024 * 1000));
	MUST(is_not_named(at[2], MIB));
	MUST(is_not_named(at[3], 64 << 10));
	MUST(cuda.cuMemFree(at[0]));
	MUST(cuda.cuMemFree(at[1]));
	/* In one page of the driver: it has its name as long as one of them is there. */
	for (int i = 0; i < 3; i++)
		MUST(cuda.cuMemAlloc(&small[i], 700));
	MUST(cuda.cuMemFree(small[1]));
	MUST(cuda.cuMemFree(small[0]));
	MUST(is_not_named(small[0], 3 * 1024));
	MUST(cuda.cuMemFree(small[2]));
	MUST(!cuda.cuMemFree(12345));
	MUST(cuda.cuMemFreeAsync(at[2], NULL));
	MUST(cuda.cuMemFreeAsync(at[3], NULL));
	if (cuda.per_thread_calls && cuda.per_thread_calls() != (twins ? 4 : 0))
		errx(1, "%u calls of the functions of per-thread streams", cuda.per_thread_calls());
}

/* No dma-buf is of two devices, whichever the thread has. */
static void two_devices(cu_ptr at, size_t chunk)
{
	for (int i = 0; i < 3; i++)
		map(at + i * chunk, chunk, i == 2);
	MUST(is_not_named(at, 2 * chunk));
	MUST(is_not_named(at + 2 * chunk, chunk));
	MUST(cuda.cuMemUnmap(at, chunk));
	MUST(is_not_named(at + chunk, chunk));
	MUST(cuda.cuDevicePrimaryCtxReset(1));
	MUST(is_not_named(at + 2 * chunk, 0));
	MUST(is_not_named(at + chunk, chunk));
	MUST(cuda.cuMemUnmap(at + chunk, chunk));
}

/* Chunks at consecutive addresses grow to one range, and a hole makes two of it. */
static void virtual_memory(size_t chunk)
{
	const int order[] = { 1, 0, 3, 2 };
	cu_ptr at;

	MUST(cuda.cuMemAddressReserve(&at, 4 * chunk, 0, 0, 0));
	for (int i = 0; i < 4; i++)
		map(at + order[i] * chunk, chunk, 0);
	MUST(is_not_named(at, 4 * chunk));
	MUST(cuda.cuMemUnmap(at + chunk, chunk));
	MUST(is_not_named(at, chunk));
	MUST(is_not_named(at + 2 * chunk, 2 * chunk));
	MUST(cuda.cuMemUnmap(at, chunk));
	MUST(cuda.cuMemUnmap(at + 2 * chunk, 2 * chunk));
	if (cuda.set_hook)
		two_devices(at, chunk);
	MUST(cuda.cuMemAddressFree(at, 4 * chunk));
}

/* A thread is not cancelled while it has the lock of the names. */
static void cancel(void) { pthread_cancel(pthread_self()); }

static void *cancelled(void *arg)
{
	cuda.set_hook(cancel);
	MUST(cuda.cuMemAlloc(&kept, MIB));
	MUST(is_not_named(kept, MIB));
	return arg;
}

static void *thread(void *arg)
{
	MUST(cuda.cuCtxSetCurrent(primary));
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
	void *result;
	int status;

	if (!strcmp(way, "none"))
		return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") || !dlerror() || dlsym(RTLD_DEFAULT, "ibv_reg_mr") ||
		       !dlerror() || !dlsym(RTLD_DEFAULT, "puts") || dlerror();
	cuda_open(way);
	MUST(cuda.cuInit(0));
	if (!cuda.set_hook)
		enter_primary();
	allocations(strstr(way, "ptsz") != NULL);
	contexts();
	if (cuda.set_hook) {
		pthread_create(&threads[0], NULL, cancelled, NULL);
		pthread_join(threads[0], &result);
		MUST(result != PTHREAD_CANCELED || cuda.cuMemFree(kept));
	}
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
