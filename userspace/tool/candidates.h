/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions that io_peer_mem can serve. */
#ifndef CANDIDATES_H
#define CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "pci.h"

/* struct pages for device memory come in sections of this size: 2 MiB with pages of 4 KiB. */
unsigned long section_size(void);

/* Returns whether io_peer_mem can use a BAR: memory, whole sections. */
bool bar_usable(const struct pci_bar *bar);

/* Returns whether io_peer_mem uses prefetchable BARs of this class without bars=. */
bool class_is_memory(const struct pci_function *function);

/* Returns whether the function is a bridge, which io_peer_mem refuses. */
bool is_bridge(const struct pci_function *function);

/*
 * Writes to @text what uses the function, as a mounted disk or a network interface that is
 * up. Returns false if nothing is known to use it. @bind: it is to be bound now, so root also finds
 * out whether a disk is open exclusively, by opening it so.
 */
bool function_in_use(const struct pci_function *function, bool bind, char *text, size_t size);

#endif /* CANDIDATES_H */
