// SPDX-License-Identifier: GPL-2.0
/*
 * export_fences NUMBER MEMORY CARD: exports as many pages of peer memory, of the file MEMORY,
 * and keeps a fence that is not signalled on each dma-buf: those of vgem, whose primary node
 * is CARD, are signalled after 10 s. Prints "ready", and renews the fences until it is killed.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/vgem_drm.h>
#include <linux/dma-buf.h>

#include "common.h"

static void call(int fd, unsigned long cmd, void *arg, const char *what)
{
	if (ioctl(fd, cmd, arg))
		err(1, "%s", what);
}

/* Returns a new fence, as a sync file. */
static int new_fence(int card)
{
	struct drm_mode_create_dumb dumb = { .width = 64, .height = 16, .bpp = 32 };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC };
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_RW };
	struct drm_vgem_fence_attach attach = { .flags = VGEM_FENCE_WRITE };
	struct drm_gem_close gem = { 0 };

	call(card, DRM_IOCTL_MODE_CREATE_DUMB, &dumb, "DRM_IOCTL_MODE_CREATE_DUMB");
	attach.handle = prime.handle = gem.handle = dumb.handle;
	call(card, DRM_IOCTL_VGEM_FENCE_ATTACH, &attach, "DRM_IOCTL_VGEM_FENCE_ATTACH");
	call(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, "DRM_IOCTL_PRIME_HANDLE_TO_FD");
	call(prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
	close(prime.fd);
	call(card, DRM_IOCTL_GEM_CLOSE, &gem, "DRM_IOCTL_GEM_CLOSE");
	return sync.fd;
}

static void add_fence(const int *bufs, size_t number, int card)
{
	struct dma_buf_import_sync_file sync = { .flags = DMA_BUF_SYNC_RW };

	sync.fd = new_fence(card);
	for (size_t i = 0; i < number; i++)
		call(bufs[i], DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &sync, "DMA_BUF_IOCTL_IMPORT_SYNC_FILE");
	close(sync.fd);
}

int main(int argc, char **argv)
{
	size_t number, page = sysconf(_SC_PAGESIZE);
	struct rlimit files;
	int card, control, memory, *bufs;
	char *addr;

	if (argc != 4)
		errx(1, "usage: export_fences NUMBER MEMORY CARD");
	number = strtoul(argv[1], NULL, 0);
	if (getrlimit(RLIMIT_NOFILE, &files))
		err(1, "getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		err(1, "setrlimit");
	bufs = calloc(number, sizeof(*bufs));
	control = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
	memory = open(argv[2], O_RDWR | O_CLOEXEC);
	card = open(argv[3], O_RDWR | O_CLOEXEC);
	if (!bufs || control < 0 || memory < 0 || card < 0)
		err(1, "open");
	addr = mmap(NULL, number * page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (addr == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < number; i++) {
		bufs[i] = export_range(control, addr + i * page, page);
		if (bufs[i] < 0)
			err(1, "IB_PEER_MEM_IOC_EXPORT");
	}
	add_fence(bufs, number, card);
	puts("ready");
	fflush(stdout);
	for (;;) {
		sleep(3);
		add_fence(bufs, number, card);
	}
}
