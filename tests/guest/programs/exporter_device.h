/* SPDX-License-Identifier: GPL-2.0 */
/* The exporters of exporter.c that are drivers of devices. */
#ifndef EXPORTER_DEVICE_H
#define EXPORTER_DEVICE_H

#include <stddef.h>
#include <sys/types.h>

/* Return the descriptor of a dma-buf, or -1 with errno set. */
int exporter_drm(const char *driver, size_t size);
/* @what: FUNCTION:BAR; @size: of the BAR, from its beginning. The device stays open. */
int exporter_vfio(const char *what, size_t size);

/*
 * Opens the device of FUNCTION:BAR; @offset: of the BAR in its file. Returns the descriptor, or -1 with errno
 * set. exporter_vfio_reset() resets the device, exporter_vfio_sleep() lets it sleep and wakes it.
 */
int exporter_vfio_bar(const char *what, off_t *offset);
int exporter_vfio_reset(int device);
int exporter_vfio_sleep(int device);

#endif /* EXPORTER_DEVICE_H */
