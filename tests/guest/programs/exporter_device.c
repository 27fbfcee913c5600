// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <drm/drm.h>
#include <linux/vfio.h>

#include "common.h"
#include "exporter.h"
#include "number.h"

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

int exporter_drm(const char *driver, size_t size)
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

int exporter_vfio(const char *what, size_t size)
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
