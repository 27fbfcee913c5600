/* SPDX-License-Identifier: GPL-2.0 */
/* Dma-bufs of the exporters that a guest has. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "peer_test_exporter.h"

struct exported {
	int dmabuf;		/* the file descriptor */
	int control;		/* of the test exporter; -1: another exporter */
};

/*
 * Makes a dma-buf of @size bytes, a multiple of the page size. @what:
 *   udmabuf		host memory of a memfd
 *   heap:NAME		/dev/dma_heap/NAME
 *   heap-read-only:NAME	the same, with a descriptor that is open for reading
 *   drm:DRIVER		a dumb buffer of the first card with this driver
 *   vfio:FUNCTION:BAR	a BAR of a PCI function that is bound to vfio-pci, whose device stays open
 *   test[:OPTION,..]	the test exporter (tests/exporter), see exporter_set()
 * Returns 0, or -1 with errno set; ENODEV: this guest has no such exporter.
 */
int exporter_make(struct exported *e, const char *what, size_t size);

/*
 * The test exporter; all return 0, or -1 with errno set. @option: "NAME=NUMBER" of attach-error,
 * map-error, pin-error (an errno; 0: no error), function (BUS << 8 | DEVFN of the PCI function whose BAR
 * the memory is in; before the dma-buf exists), gpu (1: as a dma-buf of nv_dmabuf, before it exists).
 */
int exporter_set(int control, const char *option);
int exporter_move(int control);
int exporter_revoke(int control);

int exporter_state(int control, struct peer_test_exporter_state *state);

/* Copies what is in the memory now; the dma-buf may be released. */
int exporter_read(int control, void *to, size_t length, off_t offset);

/*
 * Opens the device of FUNCTION:BAR; @offset: of the BAR in its file. Returns the descriptor, or -1 with errno
 * set. exporter_vfio_reset() resets the device, exporter_vfio_sleep() lets it sleep and wakes it.
 */
int exporter_vfio_bar(const char *what, off_t *offset);
int exporter_vfio_reset(int device);
int exporter_vfio_sleep(int device);

/* Closes a file, unless it is -1; errno stays. */
void close_quietly(int fd);

/* Has /dev/ib_peer_mem, which @control is, export memory as a dma-buf. -1: errno says why not. */
int export_range(int control, const void *addr, size_t length);

#endif /* EXPORTER_H */
