// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "common.h"
#include "exporter.h"
#include "number.h"

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
		e->dmabuf = exporter_drm(what + 4, size);
	else if (!strncmp(what, "vfio:", 5))
		e->dmabuf = exporter_vfio(what + 5, size);
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
