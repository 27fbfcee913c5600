// SPDX-License-Identifier: GPL-2.0

#include <errno.h>

#include "cuda.h"
#include "gpu.h"
#include "number.h"

#define MAX_CHUNKS 64

static cu_ptr base;
static size_t chunk;		/* bytes; 0: an allocation */
static bool mapped[MAX_CHUNKS];

static int rc_of(int result)
{
	errno = result ? EIO : 0;
	return result ? -1 : 0;
}

int gpu_chunk(bool map, size_t i)
{
	cu_ptr at = base + i * chunk;
	void *handle;
	int result;

	if (!chunk || i >= MAX_CHUNKS || mapped[i] == map)
		return rc_of(1);
	mapped[i] = map;
	if (!map)
		return rc_of(cuda.cuMemUnmap(at, chunk));
	if (cuda.cuMemCreate(&handle, chunk, NULL, 0))
		return rc_of(1);
	result = cuda.cuMemMap(at, chunk, 0, handle, 0);
	return rc_of(cuda.cuMemRelease(handle) || result);
}

int gpu_free(void)
{
	if (!chunk)
		return rc_of(cuda.cuMemFree(base));
	for (size_t i = 0; i < MAX_CHUNKS; i++)
		if (mapped[i] && gpu_chunk(false, i))
			return -1;
	return rc_of(cuda.cuMemAddressFree(base, MAX_CHUNKS * chunk));
}

int gpu_read(void *to, const char *from, size_t length)
{
	return rc_of(cuda.cuMemcpyDtoH(to, (uintptr_t)from, length));
}

int gpu_allocate(const char *what, size_t length, char **addr)
{
	char *way = strdup(what), *colon = strchr(way, ':');
	uint64_t mib = 0;
	int result;

	if (colon) {
		*colon++ = '\0';
		if (!parse_number(colon, &mib))
			return rc_of(1);
	}
	cuda_open(way);
	free(way);
	chunk = mib << 20;
	if (chunk)
		result = cuda.cuMemAddressReserve(&base, MAX_CHUNKS * chunk, 0, 0, 0);
	else
		result = cuda.cuMemAlloc(&base, length);
	*addr = (char *)(uintptr_t)base;
	for (size_t i = 0; !result && chunk && i * chunk < length; i++)
		result = gpu_chunk(true, i);
	return rc_of(result);
}
