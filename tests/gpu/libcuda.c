// SPDX-License-Identifier: GPL-2.0
/*
 * libcuda.so.1 - stands for CUDA's driver: memory of /dev/peer_mem_test_exporter, whose dma-bufs behave as
 * those of nv_dmabuf; or where that is not, dma-bufs that are empty files.
 *
 * What was seen of the real one: a dma-buf of any whole pages of memory, over several handles, in any
 * mapping, of one device; error 1 for others, and for less than a block of a pool from its inside; a crash for a
 * range beyond a pool's memory; error 3 in the child of a fork. Aborts if memory is freed with a name, except by
 * the last release of the primary context.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ib_peer_mem.h>
#include <peer_test_exporter.h>

#include "cuda.h"

#define MIB (1ULL << 20)
/* Allocations below GRANULE, and those of a pool, share such blocks. */
#define BLOCK (2 * MIB)
#define POOL_BLOCK (32 * MIB)
#define GRANULE 65536ULL
#define MAPPINGS 4096
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NOT_FOUND = 500 };

struct handle {
	int control;		/* of the exporter; -1: none */
	size_t size;
	unsigned int users;	/* the program, and mappings */
	int device;
};

struct mapping {
	cu_ptr at;
	size_t size, offset;
	struct handle *handle;
	void *context;		/* an allocation of this one; NULL: virtual memory */
	unsigned int small;	/* allocations in a block */
	size_t used;		/* of the block */
	size_t sizes[POOL_BLOCK / GRANULE];	/* of allocations of GRANULE and more, by where they begin */
};

static struct mapping mappings[MAPPINGS];
static size_t n_mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread void *current = (void *)1;	/* the primary context */
static pid_t owner;
static unsigned int per_thread_calls;
static unsigned int retains = 1;	/* of the primary context of device 0 */
static void (*hook)(void);

/* Of the stand-in: how often a function of per-thread streams was called. */
unsigned int standin_per_thread_calls(void) { return per_thread_calls; }

/* Of the stand-in: what the next one of some functions calls, as if another thread did at that time. */
void standin_set_hook(void (*call)(void)) { hook = call; }

static void call_hook(void)
{
	void (*call)(void) = hook;

	hook = NULL;
	if (call)
		call();
}

static struct handle *make_handle(size_t size)
{
	struct peer_test_exporter_create create = { .size = size, .fd = -1 };
	struct peer_test_exporter_set gpu = { .option = PEER_TEST_EXPORTER_GPU, .value = 1 };
	struct handle *h = calloc(1, sizeof(*h));

	if (!owner)
		owner = getpid();
	*h = (struct handle) { .size = size, .users = 1 };
	h->control = open("/dev/peer_mem_test_exporter", O_RDWR | O_CLOEXEC);
	if (h->control >= 0 && (ioctl(h->control, PEER_TEST_EXPORTER_SET, &gpu) ||
				ioctl(h->control, PEER_TEST_EXPORTER_CREATE, &create))) {
		close(h->control);
		free(h);
		return NULL;
	}
	if (create.fd >= 0)
		close(create.fd);
	return h;
}

static void put_handle(struct handle *h)
{
	if (--h->users)
		return;
	if (h->control >= 0)
		close(h->control);
	free(h);
}

static void must_have_no_name(cu_ptr at, size_t size)
{
	int control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; control >= 0 && i < size; i += GRANULE) {
		struct ib_peer_mem_name name = { .version = IB_PEER_MEM_NAME_VERSION, .addr = at + i };

		if (!ioctl(control, IB_PEER_MEM_IOC_QUERY, &name)) {
			fprintf(stderr, "libcuda: %#llx is freed with its name\n", at + i);
			abort();
		}
	}
	if (control >= 0)
		close(control);
}

static struct mapping *mapping_of(cu_ptr at)
{
	for (struct mapping *m = mappings; m < mappings + n_mappings; m++)
		if (m->at <= at && at < m->at + m->size)
			return m;
	return NULL;
}

static void end_mapping(struct mapping *m)
{
	if (retains)
		must_have_no_name(m->at, m->size);
	put_handle(m->handle);
	*m = mappings[--n_mappings];
}

/* --- virtual memory --- */

int cuMemAddressReserve(cu_ptr *at, size_t size, size_t align, cu_ptr hint, unsigned long long flags)
{
	char *p = mmap(NULL, size + POOL_BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || align || hint || flags)
		return OUT_OF_MEMORY;
	*at = ((uintptr_t)p + POOL_BLOCK - 1) / POOL_BLOCK * POOL_BLOCK;
	return 0;
}

int cuMemAddressFree(cu_ptr at, size_t size)
{
	munmap((void *)(uintptr_t)at, size);
	return 0;
}

/* @properties: the last is the device. */
int cuMemCreate(struct handle **h, size_t size, const int properties[4], unsigned long long flags)
{
	if (size % BLOCK || flags)
		return INVALID_VALUE;
	*h = make_handle(size);
	if (*h && properties)
		(*h)->device = properties[3];
	return *h ? 0 : OUT_OF_MEMORY;
}

int cuMemGetAllocationPropertiesFromHandle(int properties[4], const struct handle *h)
{
	properties[2] = 1;
	properties[3] = h->device;
	return 0;
}

int cuMemRelease(struct handle *h)
{
	pthread_mutex_lock(&lock);
	put_handle(h);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int map(cu_ptr at, size_t size, struct handle *h, void *context)
{
	int result = OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	if (n_mappings < MAPPINGS && !mapping_of(at)) {
		mappings[n_mappings++] = (struct mapping) { .at = at, .size = size, .handle = h,
							    .context = context };
		h->users++;
		result = 0;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int cuMemMap(cu_ptr at, size_t size, size_t offset, struct handle *h, unsigned long long flags)
{
	if (offset || flags || size != h->size)
		return INVALID_VALUE;
	return map(at, size, h, NULL);
}

int cuMemUnmap(cu_ptr at, size_t size)
{
	int result = INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_mappings; i++)
		if (!mappings[i].context && mappings[i].at >= at && mappings[i].at + mappings[i].size <= at + size) {
			end_mapping(&mappings[i--]);
			result = 0;
		}
	pthread_mutex_unlock(&lock);
	return result;
}

/* --- allocations --- */

static cu_ptr allocate_in(struct mapping *m, size_t size)
{
	size_t unit = size < GRANULE ? 512 : GRANULE, start = (m->used + unit - 1) / unit * unit;

	m->used = start + (size + unit - 1) / unit * unit;
	m->small++;
	if (unit == GRANULE)
		m->sizes[start / GRANULE] = size;
	return m->at + start;
}

static int allocate(cu_ptr *at, size_t size, size_t block)
{
	size_t rounded = (size + block - 1) / block * block, shared = block == BLOCK ? GRANULE : block;
	struct handle *h;
	int result;

	if (owner && getpid() != owner)
		return NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	for (struct mapping *m = mappings; size < shared && m < mappings + n_mappings; m++)
		if (m->small && m->size == block && m->context == current && m->used + size + 2 * GRANULE <= block) {
			*at = allocate_in(m, size);
			pthread_mutex_unlock(&lock);
			return 0;
		}
	pthread_mutex_unlock(&lock);
	h = make_handle(rounded);
	if (!h || cuMemAddressReserve(at, rounded, 0, 0, 0))
		return OUT_OF_MEMORY;
	result = map(*at, rounded, h, current);
	pthread_mutex_lock(&lock);
	put_handle(h);
	if (!result && size < shared)
		allocate_in(mapping_of(*at), size);
	pthread_mutex_unlock(&lock);
	return result;
}

int cuMemAlloc_v2(cu_ptr *at, size_t size) { return allocate(at, size, BLOCK); }
int cuMemAllocAsync(cu_ptr *at, size_t size, void *stream) { return (void)stream, allocate(at, size, POOL_BLOCK); }
int cuMemAllocAsync_ptsz(cu_ptr *at, size_t size, void *stream)
{
	per_thread_calls++;
	return cuMemAllocAsync(at, size, stream);
}
int cuMemAllocFromPoolAsync(cu_ptr *at, size_t size, void *pool, void *stream)
{
	return (void)pool, cuMemAllocAsync(at, size, stream);
}
int cuMemAllocFromPoolAsync_ptsz(cu_ptr *at, size_t size, void *pool, void *stream)
{
	return (void)pool, cuMemAllocAsync_ptsz(at, size, stream);
}
int cuMemAllocPitch_v2(cu_ptr *at, size_t *pitch, size_t width, size_t height, unsigned int bytes)
{
	(void)bytes;
	*pitch = (width + 511) / 512 * 512;
	return cuMemAlloc_v2(at, *pitch * height);
}

int cuMemFree_v2(cu_ptr at)
{
	int result = INVALID_VALUE;
	struct mapping *m;

	if (getpid() != owner)
		return NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	m = mapping_of(at);
	if (m && m->context && (m->small || m->at == at)) {
		if (m->small && at % GRANULE == 0)
			must_have_no_name(at, m->sizes[(at - m->at) / GRANULE]);
		if (m->small < 2)
			end_mapping(m);
		else
			m->small--;
		result = 0;
	}
	pthread_mutex_unlock(&lock);
	return result;
}
int cuMemFreeAsync(cu_ptr at, void *stream) { return (void)stream, cuMemFree_v2(at); }
int cuMemFreeAsync_ptsz(cu_ptr at, void *stream) { return per_thread_calls++, cuMemFreeAsync(at, stream); }

/* --- device and contexts --- */

int cuInit(unsigned int flags) { return flags; }
int cuDeviceGetDefaultMemPool(void **pool, int device) { return *pool = NULL, device; }
int cuCtxGetCurrent(void **context) { return *context = current, 0; }
int cuCtxSetCurrent(void *context) { return current = context, 0; }
int cuCtxCreate_v2(void **context, unsigned int flags, int device) { return current = *context = (void *)2, flags || device; }
int cuCtxGetDevice(int *device) { return *device = 0; }
int cuPointerGetAttribute(int *value, int what, cu_ptr at) { return call_hook(), what != 9 || !at || (*value = 0); }

static void end_mappings(const void *context, int device)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_mappings; i++)
		if (context ? mappings[i].context == context : mappings[i].handle->device == device)
			end_mapping(&mappings[i--]);
	pthread_mutex_unlock(&lock);
}

int cuCtxDestroy_v2(void *context)
{
	end_mappings(context, -1);
	call_hook();
	return 0;
}
int cuDevicePrimaryCtxReset_v2(int device) { return end_mappings(device ? NULL : (void *)1, device), 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)1, retains += !device, 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
	return *active = device || retains, *flags = 0;
}
int cuDevicePrimaryCtxRelease_v2(int device)
{
	call_hook();
	if (device || !retains)
		return INVALID_VALUE;
	if (!--retains)
		end_mappings((void *)1, -1);
	return 0;
}

/* --- what is in the memory, and its dma-bufs --- */

int cuMemcpyDtoH_v2(void *to, cu_ptr from, size_t size)
{
	char *p = to;
	int result = 0;

	pthread_mutex_lock(&lock);
	while (size && !result) {
		const struct mapping *m = mapping_of(from);
		size_t n = m && m->at + m->size - from < size ? m->at + m->size - from : size;
		ssize_t got = m ? pread(m->handle->control, p, n, from - m->at) : -1;

		if (got <= 0)
			result = INVALID_VALUE;
		p += got;
		from += got;
		size -= got;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static int join(cu_ptr start, size_t size)
{
	struct peer_test_exporter_part parts[PEER_TEST_EXPORTER_PARTS];
	struct peer_test_exporter_set gpu = { .option = PEER_TEST_EXPORTER_GPU, .value = 1 };
	struct peer_test_exporter_join arg = { .parts = (uintptr_t)parts, .fd = -1 };
	const struct mapping *first = mapping_of(start);
	const bool is_pool = first && first->small && first->size == POOL_BLOCK;
	int control;

	if (is_pool && start != first->at && size < POOL_BLOCK)
		return -1;
	for (cu_ptr at = start, end = at + size; at < end; arg.n++) {
		const struct mapping *m = mapping_of(at);
		size_t n;

		if (!m && is_pool)
			abort();
		if (!m || m->handle->device != first->handle->device || arg.n == PEER_TEST_EXPORTER_PARTS)
			return -1;
		n = m->at + m->size < end ? m->at + m->size - at : end - at;
		parts[arg.n] = (struct peer_test_exporter_part) {
			.control = m->handle->control,
			.offset = at - m->at,
			.size = n,
		};
		at += n;
	}
	control = open("/dev/peer_mem_test_exporter", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return memfd_create("nv_dmabuf", MFD_CLOEXEC);
	if (ioctl(control, PEER_TEST_EXPORTER_SET, &gpu) || ioctl(control, PEER_TEST_EXPORTER_JOIN, &arg))
		arg.fd = -1;
	close(control);
	return arg.fd;
}

int cuMemGetHandleForAddressRange(void *fd, cu_ptr at, size_t size, int type, unsigned long long flags)
{
	int got;

	if (getpid() != owner)
		return NOT_INITIALIZED;
	if (type != 1 || flags || !size || (at | size) % 4096)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	got = join(at, size);
	pthread_mutex_unlock(&lock);
	if (got < 0)
		return INVALID_VALUE;
	*(int *)fd = got;
	return 0;
}

/* --- cuGetProcAddress() --- */

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static int find(const char *name, void **function, int version, bool per_thread)
{
	static const struct { const char *name; int version; void *legacy, *per_thread; } all[] = {
		{ "cuGetProcAddress", 12000, cuGetProcAddress_v2, cuGetProcAddress_v2 },
		{ "cuGetProcAddress", 11030, cuGetProcAddress, cuGetProcAddress },
#define F(name, version, twin, since, arguments) { #name, since, name##version, name##version##twin },
		CUDA_FUNCTIONS(F)
#undef F
	};

	*function = NULL;
	for (size_t i = 0; !*function && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, name) && version >= all[i].version)
			*function = per_thread ? all[i].per_thread : all[i].legacy;
	return *function ? 0 : NOT_FOUND;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	return find(name, function, version, flags & 2);
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	if (status)
		*status = 0;
	return find(name, function, version, flags & 2);
}
