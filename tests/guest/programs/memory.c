// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda.h"
#include "exporter.h"
#include "ib_peer_mem.h"
#include "memory.h"
#include "number.h"
#include "pattern.h"

struct mapped {
	struct exported exported;
	char *addr;
	size_t length;
	size_t start;		/* of the mapping in the dma-buf */
};

#define READ_WRITE (PROT_READ | PROT_WRITE)

static size_t page;

/* Maps @length bytes of the dma-buf from @offset on at @offset2 of the mapping. */
static int map_over(struct mapped *m, int dmabuf, size_t offset2, size_t offset, size_t length)
{
	void *addr = mmap(m->addr + offset2, length, READ_WRITE, MAP_SHARED | MAP_FIXED, dmabuf,
			  offset);

	return addr == MAP_FAILED ? -1 : 0;
}

/*
 * A VMA of such memory is not merged again. Its pages are there before: drivers of DRM with shmem find a
 * page by its distance from the start of the VMA, and not by its offset in the file.
 */
static int split(struct mapped *m)
{
	for (size_t i = 0; i < m->length; i += page)
		*(volatile char *)(m->addr + i);
	for (size_t i = page; i < m->length; i += 2 * page)
		if (mprotect(m->addr + i, page, PROT_NONE) || mprotect(m->addr + i, page, READ_WRITE))
			return -1;
	return 0;
}

static int pieces(struct mapped *m)
{
	for (size_t i = 0; i < m->length; i += page)
		if (map_over(m, m->exported.dmabuf, i, m->start + i, page))
			return -1;
	return 0;
}

static int swapped(struct mapped *m)
{
	size_t half = m->length / 2 & -page;

	return map_over(m, m->exported.dmabuf, 0, m->start + m->length - half, half) ||
		map_over(m, m->exported.dmabuf, m->length - half, m->start, half) ? -1 : 0;
}

static int two(struct mapped *m, const char *what)
{
	size_t half = m->length / 2 & -page;
	struct exported other;

	if (exporter_make(&other, what, m->length))
		return -1;
	return map_over(m, other.dmabuf, m->length - half, m->length - half, half);
}

static int anonymous(struct mapped *m, size_t offset)
{
	void *addr = mmap(m->addr + offset, page, READ_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);

	return addr == MAP_FAILED ? -1 : 0;
}

static int make_shape(struct mapped *m, const char *what, const char *shape)
{
	size_t last = m->length - page;

	if (!strcmp(shape, "split"))
		return split(m);
	if (!strcmp(shape, "pieces"))
		return pieces(m);
	if (!strcmp(shape, "swapped"))
		return swapped(m);
	if (!strcmp(shape, "two"))
		return two(m, what);
	if (!strcmp(shape, "hole"))
		return munmap(m->addr + (m->length / 2 & -page), page);
	if (!strcmp(shape, "tail"))
		return anonymous(m, last);
	if (!strcmp(shape, "head"))
		return anonymous(m, 0);
	if (!strcmp(shape, "guarded"))
		return mprotect(m->addr + last, page, PROT_NONE);
	if (!strcmp(shape, "read-tail"))
		return mprotect(m->addr + last, page, PROT_READ);
	errno = EINVAL;
	return -1;
}

/* Makes a dma-buf, see exporter_make(), and maps @length bytes, whole pages, in this shape. */
static int mapped_make(struct mapped *m, const char *what, size_t length, const char *shape)
{
	bool part = !strcmp(shape, "part"), read_only = !strcmp(shape, "read-only");
	bool is_private = !strcmp(shape, "private");

	page = sysconf(_SC_PAGESIZE);
	*m = (struct mapped) { .length = length, .start = part ? 3 * page : 0 };
	if (exporter_make(&m->exported, what, length + (part ? 5 * page : 0)))
		return -1;
	if (!strcmp(shape, "none") || !strcmp(shape, "reserved")) {
		m->addr = mmap(NULL, length, *shape == 'n' ? PROT_NONE : READ_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return m->addr == MAP_FAILED ? -1 : 0;
	}
	m->addr = mmap(NULL, length, PROT_READ | (read_only ? 0 : PROT_WRITE),
		       is_private ? MAP_PRIVATE : MAP_SHARED, m->exported.dmabuf, m->start);
	if (m->addr == MAP_FAILED)
		return -1;
	if (part || read_only || is_private || !strcmp(shape, "whole"))
		return 0;
	return make_shape(m, what, shape);
}

/* Returns a dma-buf of a mapping of peer memory. */
static int export_mapping(void *addr, size_t length)
{
	int fd, device = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);

	if (device < 0)
		return -1;
	fd = export_range(device, addr, length);
	close_quietly(device);
	if (fd >= 0 && fcntl(fd, F_GETFD) != FD_CLOEXEC)
		errx(1, "the exported dma-buf is not close-on-exec");
	return fd;
}

static int call(unsigned long cmd, struct ib_peer_mem_name *arg)
{
	int rc, device = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);

	if (device < 0)
		return -1;
	arg->version = IB_PEER_MEM_NAME_VERSION;
	rc = ioctl(device, cmd, arg);
	close_quietly(device);
	return rc;
}

/* Says that the addresses are a part of the dma-buf. */
static int name(const struct mapped *mapped)
{
	struct ib_peer_mem_name arg = {
		.addr = (uintptr_t)mapped->addr,
		.length = mapped->length,
		.offset = mapped->start,
		.fd = mapped->exported.dmabuf,
	};

	return call(IB_PEER_MEM_IOC_NAME, &arg);
}

int memory_unname(const struct memory *m)
{
	struct ib_peer_mem_name arg = { .addr = (uintptr_t)m->addr, .length = m->length };

	return call(IB_PEER_MEM_IOC_UNNAME, &arg);
}

/* A mapping of a dma-buf, which is registered by its addresses, or by the dma-buf. */
static int map_dmabuf(struct memory *m, const char *what, const char *shape, bool by_address,
		      bool named)
{
	struct mapped mapped;

	if (mapped_make(&mapped, what, m->length, shape) || (named && name(&mapped)))
		return -1;
	m->addr = mapped.addr;
	m->fd = mapped.exported.dmabuf;
	m->dmabuf = by_address ? -1 : mapped.exported.dmabuf;
	m->start = mapped.start;
	m->control = mapped.exported.control;
	return 0;
}

/* The huge pages of a BAR that vfio-pci maps need an address with the alignment of the BAR. */
static int map_vfio(struct memory *m, const char *what)
{
	const size_t huge = 2 << 20;
	off_t offset;
	char *at;

	m->fd = exporter_vfio_bar(what, &offset);
	if (m->fd < 0)
		return -1;
	at = mmap(NULL, m->length + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -1;
	at = (char *)(((uintptr_t)at + huge - 1) & -huge);
	m->addr = mmap(at, m->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, offset);
	return m->addr == MAP_FAILED ? -1 : 0;
}

/* The mapping is that of libibverbs. */
static int find_doorbell(struct memory *m)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start;
	char line[512], write;

	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%*x %*c%c", &start, &write) == 2 && write == 'w' &&
		    strstr(line, "/dev/infiniband/uverbs")) {
			m->addr = (char *)start;
			fclose(maps);
			return 0;
		}
	}
	errx(1, "no doorbell is mapped");
}

/* Memory of the stand-in for CUDA's driver. */
#define MAX_CHUNKS 64

static cu_ptr gpu_base;
static size_t chunk;		/* bytes; 0: an allocation */
static bool has_chunk[MAX_CHUNKS];

static int rc_of(int result)
{
	errno = result ? EIO : 0;
	return result ? -1 : 0;
}

int gpu_chunk(bool map, size_t i)
{
	cu_ptr at = gpu_base + i * chunk;
	void *handle;
	int result;

	if (!chunk || i >= MAX_CHUNKS || has_chunk[i] == map)
		return rc_of(1);
	has_chunk[i] = map;
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
		return rc_of(cuda.cuMemFree(gpu_base));
	for (size_t i = 0; i < MAX_CHUNKS; i++)
		if (has_chunk[i] && gpu_chunk(false, i))
			return -1;
	return rc_of(cuda.cuMemAddressFree(gpu_base, MAX_CHUNKS * chunk));
}

int gpu_read(void *to, const char *from, size_t length)
{
	return rc_of(cuda.cuMemcpyDtoH(to, (uintptr_t)from, length));
}

static int gpu_allocate(const char *what, size_t length, char **addr)
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
		result = cuda.cuMemAddressReserve(&gpu_base, MAX_CHUNKS * chunk, 0, 0, 0);
	else
		result = cuda.cuMemAlloc(&gpu_base, length);
	*addr = (char *)(uintptr_t)gpu_base;
	for (size_t i = 0; !result && chunk && i * chunk < length; i++)
		result = gpu_chunk(true, i);
	return rc_of(result);
}

int memory_map(struct memory *m, const char *what, const char *shape, size_t length)
{
	int flags = MAP_SHARED, fd = -1;
	bool export = strncmp(what, "export:", 7) == 0, named = strncmp(what, "named:", 6) == 0;
	size_t page = sysconf(_SC_PAGESIZE);

	*m = (struct memory) { .length = length, .fd = -1, .dmabuf = -1, .control = -1 };
	m->gpu = strncmp(what, "gpu:", 4) == 0;
	if (m->gpu)
		return gpu_allocate(what + 4, length, &m->addr);
	if (strncmp(what, "vfio:", 5) == 0)
		return map_vfio(m, what + 5);
	if (strcmp(what, "doorbell") == 0)
		return find_doorbell(m);
	if (named || strncmp(what, "mapped:", 7) == 0 || strncmp(what, "dmabuf:", 7) == 0) {
		m->length = (length + page - 1) & -page;
		if (!shape)
			shape = named ? "none" : "whole";
		return map_dmabuf(m, strchr(what, ':') + 1, shape, *what != 'd', named);
	}
	if (strcmp(what, "host") == 0)
		flags = MAP_PRIVATE | MAP_ANONYMOUS;
	else
		fd = open(export ? what + 7 : what, O_RDWR | O_CLOEXEC);
	if (fd < 0 && !(flags & MAP_ANONYMOUS))
		return -1;
	m->addr = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (m->addr == MAP_FAILED)
		return -1;
	if (export) {
		m->dmabuf = export_mapping(m->addr, length);
		if (m->dmabuf < 0)
			return -1;
	}
	/* The file stays open, as in most applications. */
	m->fd = fd;
	return 0;
}

int memory_map_over(struct memory *m, const char *what)
{
	bool host = strcmp(what, "host") == 0, anonymous = host || strcmp(what, "reserved") == 0;
	int flags = MAP_FIXED | (anonymous ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	struct exported other = { .dmabuf = -1 };
	void *at;

	if (strcmp(what, "same") == 0)
		other.dmabuf = m->fd;
	else if (!anonymous && exporter_make(&other, what, m->length))
		return -1;
	m->changed = true;
	at = mmap(m->addr, m->length, PROT_READ | PROT_WRITE, flags | (host ? MAP_POPULATE : 0),
		  other.dmabuf, 0);
	return at == MAP_FAILED ? -1 : 0;
}

int memory_change(struct memory *m, const char *how, size_t offset, size_t length)
{
	char *at = m->addr + offset;
	void *to;

	m->changed = true;
	if (strcmp(how, "unmap") == 0)
		return munmap(at, length);
	if (strcmp(how, "protect") == 0)
		return mprotect(at, length, PROT_READ);
	to = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return -1;
	return mremap(at, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED ? -1 : 0;
}

int memory_unmap(struct memory *m)
{
	m->changed = true;
	if (munmap(m->addr, m->length) || (m->fd >= 0 && close(m->fd)))
		return -1;
	m->fd = -1;
	return 0;
}

static _Thread_local sigjmp_buf gone;
static _Thread_local volatile sig_atomic_t guarded;

/* One elsewhere ends the program. */
static void on_signal(int sig)
{
	if (guarded) {
		guarded = false;
		siglongjmp(gone, sig);
	}
	signal(sig, SIG_DFL);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

/* Writes the pattern, or returns the offset of the first difference; @length: none. */
static __attribute__((noinline)) size_t walk(volatile char *at, size_t length, uint64_t seed,
					     bool write)
{
	for (size_t done = 0; done < length; ) {
		uint64_t word = splitmix64(&seed);

		for (size_t i = 0; i < 8 && done < length; i++, done++) {
			char byte = word >> (8 * i);

			if (write)
				at[done] = byte;
			else if (at[done] != byte)
				return done;
		}
	}
	return length;
}

int memory_fill(char *to, size_t length, uint64_t seed)
{
	catch_signals();
	if (sigsetjmp(gone, 1))
		return -1;
	guarded = true;
	walk(to, length, seed, true);
	guarded = false;
	return 0;
}

int memory_check(const char *from, size_t length, uint64_t seed, size_t *wrong)
{
	catch_signals();
	if (sigsetjmp(gone, 1))
		return -1;
	guarded = true;
	*wrong = walk((char *)from, length, seed, false);
	guarded = false;
	return 0;
}

int memory_read(char *to, const char *from, size_t length)
{
	catch_signals();
	if (sigsetjmp(gone, 1))
		return -1;
	guarded = true;
	memcpy(to, from, length);
	guarded = false;
	return 0;
}
