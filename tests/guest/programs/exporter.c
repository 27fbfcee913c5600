// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <linux/vfio.h>

#include <ib_peer_mem.h>

#include "exporter.h"
#include "number.h"

void close_quietly(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}

int export_range(int control, const void *addr, size_t length)
{
	struct ib_peer_mem_export export = {
		.version = IB_PEER_MEM_EXPORT_VERSION,
		.addr = (uintptr_t)addr,
		.length = length,
	};

	return ioctl(control, IB_PEER_MEM_IOC_EXPORT, &export) ? -1 : export.fd;
}

static int make_udmabuf(size_t size)
{
	struct udmabuf_create create = { .size = size };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd = -1;

	if (device < 0) {
		errno = ENODEV;
		return -1;
	}
	create.memfd = memfd_create("exporter", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (!ftruncate(create.memfd, size) && !fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		fd = ioctl(device, UDMABUF_CREATE, &create);
	/* The dma-buf has the pages. */
	close_quietly(create.memfd);
	close_quietly(device);
	return fd;
}

static int make_heap(const char *name, size_t size, int access)
{
	struct dma_heap_allocation_data data = { .len = size, .fd_flags = access | O_CLOEXEC };
	char path[64];
	int rc, heap;

	snprintf(path, sizeof(path), "/dev/dma_heap/%s", name);
	heap = open(path, O_RDWR | O_CLOEXEC);
	if (heap < 0) {
		errno = ENODEV;
		return -1;
	}
	rc = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data);
	close_quietly(heap);
	return rc ? -1 : (int)data.fd;
}

static int make_test(struct exported *e, const char *options, size_t size)
{
	struct peer_test_exporter_create create = { .size = size };
	char *text = strdup(options), *save, *word;

	e->control = open("/dev/peer_mem_test_exporter", O_RDWR | O_CLOEXEC);
	if (e->control < 0) {
		errno = ENODEV;
		return -1;
	}
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save))
		if (exporter_set(e->control, word))
			return -1;
	free(text);
	return ioctl(e->control, PEER_TEST_EXPORTER_CREATE, &create) ? -1 : create.fd;
}

/* The card with this driver, or -1. */
static int open_card(const char *driver)
{
	for (int i = 0; i < 8; i++) {
		char path[32], name[64] = "";
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, driver))
			return fd;
		close(fd);
	}
	errno = ENODEV;
	return -1;
}

static int make_drm(const char *driver, size_t size)
{
	/* A line of a page and 32 bits for a pixel: the size is exact. */
	struct drm_mode_create_dumb dumb = { .width = 1024, .height = size / 4096, .bpp = 32 };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1 };
	int card = open_card(driver);

	if (card < 0)
		return -1;
	if (!ioctl(card, DRM_IOCTL_MODE_CREATE_DUMB, &dumb)) {
		prime.handle = dumb.handle;
		if (ioctl(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime))
			prime.fd = -1;
	}
	/* The dma-buf has the buffer. */
	close_quietly(card);
	return prime.fd;
}

/* Newer than the headers that this is built with. */
#ifndef VFIO_DEVICE_FEATURE_DMA_BUF
#define VFIO_DEVICE_FEATURE_DMA_BUF 11

struct vfio_region_dma_range {
	__u64 offset;
	__u64 length;
};

struct vfio_device_feature_dma_buf {
	__u32 region_index;
	__u32 open_flags;
	__u32 flags;
	__u32 nr_ranges;
	struct vfio_region_dma_range dma_ranges[];
};
#endif

/* The device, in a container of its own that stays open; or -1. */
static int open_vfio(const char *function)
{
	char path[96], link[PATH_MAX];
	int container, group;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", function);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0) {
		errno = ENODEV;
		return -1;
	}
	link[n] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio/%.64s", strrchr(link, '/') + 1);
	container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	group = open(path, O_RDWR | O_CLOEXEC);
	if (container < 0 || group < 0 || ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) ||
	    ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		return -1;
	return ioctl(group, VFIO_GROUP_GET_DEVICE_FD, function);
}

/* Opens the device of FUNCTION:BAR. Returns the descriptor, or -1 with errno set. */
static int open_bar(const char *what, uint64_t *bar)
{
	const char *colon = strrchr(what, ':');
	char function[32];

	if (!colon || !parse_number(colon + 1, bar)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(function, sizeof(function), "%.*s", (int)(colon - what), what);
	return open_vfio(function);
}

int exporter_vfio_bar(const char *what, off_t *offset)
{
	struct vfio_region_info info = { .argsz = sizeof(info) };
	uint64_t bar;
	int device = open_bar(what, &bar);

	if (device < 0)
		return -1;
	info.index = bar;
	if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info))
		return -1;
	*offset = info.offset;
	return device;
}

int exporter_vfio_reset(int device)
{
	return ioctl(device, VFIO_DEVICE_RESET);
}

int exporter_vfio_sleep(int device)
{
	struct vfio_device_feature feature = {
		.argsz = sizeof(feature),
		.flags = VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_LOW_POWER_ENTRY,
	};

	if (ioctl(device, VFIO_DEVICE_FEATURE, &feature))
		return -1;
	feature.flags = VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_LOW_POWER_EXIT;
	return ioctl(device, VFIO_DEVICE_FEATURE, &feature);
}

static int make_vfio(const char *what, size_t size)
{
	const size_t length = sizeof(struct vfio_device_feature) +
			      sizeof(struct vfio_device_feature_dma_buf) +
			      sizeof(struct vfio_region_dma_range);
	struct vfio_device_feature_dma_buf *buf;
	struct vfio_device_feature *feature;
	uint64_t bar;
	int device = open_bar(what, &bar);

	feature = calloc(1, length);
	if (device < 0 || !feature)
		return -1;
	feature->argsz = length;
	feature->flags = VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_DMA_BUF;
	buf = (void *)feature->data;
	buf->region_index = bar;
	buf->open_flags = O_RDWR | O_CLOEXEC;
	buf->nr_ranges = 1;
	buf->dma_ranges[0].length = size;
	return ioctl(device, VFIO_DEVICE_FEATURE, feature);
}

int exporter_make(struct exported *e, const char *what, size_t size)
{
	*e = (struct exported) { .dmabuf = -1, .control = -1 };
	if (!strcmp(what, "udmabuf"))
		e->dmabuf = make_udmabuf(size);
	else if (!strncmp(what, "heap:", 5))
		e->dmabuf = make_heap(what + 5, size, O_RDWR);
	else if (!strncmp(what, "heap-read-only:", 15))
		e->dmabuf = make_heap(what + 15, size, O_RDONLY);
	else if (!strncmp(what, "drm:", 4))
		e->dmabuf = make_drm(what + 4, size);
	else if (!strncmp(what, "vfio:", 5))
		e->dmabuf = make_vfio(what + 5, size);
	else if (!strcmp(what, "test"))
		e->dmabuf = make_test(e, "", size);
	else if (!strncmp(what, "test:", 5))
		e->dmabuf = make_test(e, what + 5, size);
	else
		errno = ENODEV;
	return e->dmabuf < 0 ? -1 : 0;
}

int exporter_set(int control, const char *option)
{
	static const char *const names[] = {
		[PEER_TEST_EXPORTER_ATTACH_ERROR] = "attach-error",
		[PEER_TEST_EXPORTER_MAP_ERROR] = "map-error",
		[PEER_TEST_EXPORTER_PIN_ERROR] = "pin-error",
		[PEER_TEST_EXPORTER_FUNCTION] = "function",
		[PEER_TEST_EXPORTER_GPU] = "gpu",
	};
	size_t length = strcspn(option, "=");
	struct peer_test_exporter_set set;
	uint64_t value;

	for (set.option = 0; set.option < PEER_TEST_EXPORTER_OPTIONS; set.option++) {
		if (strlen(names[set.option]) != length ||
		    strncmp(names[set.option], option, length) || !option[length] ||
		    !parse_number(option + length + 1, &value))
			continue;
		set.value = value;
		return ioctl(control, PEER_TEST_EXPORTER_SET, &set);
	}
	errno = EINVAL;
	return -1;
}

int exporter_move(int control)
{
	return ioctl(control, PEER_TEST_EXPORTER_MOVE);
}

int exporter_revoke(int control)
{
	return ioctl(control, PEER_TEST_EXPORTER_REVOKE);
}

int exporter_state(int control, struct peer_test_exporter_state *state)
{
	return ioctl(control, PEER_TEST_EXPORTER_STATE, state);
}

int exporter_read(int control, void *to, size_t length, off_t offset)
{
	char *at = to;

	while (length) {
		ssize_t n = pread(control, at, length, offset);

		if (n <= 0) {
			if (!n)
				errno = ENODATA;
			return -1;
		}
		at += n;
		offset += n;
		length -= n;
	}
	return 0;
}
