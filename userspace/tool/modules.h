/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loading and unloading of the modules: applications take ib_peer_mem, once it is loaded, for device
 * memory that can be registered.
 */
#ifndef MODULES_H
#define MODULES_H

#include <stdbool.h>

/*
 * Loads a module, and what it depends on, unless it is loaded. Ends the program if it cannot. Returns whether
 * it was not loaded.
 */
bool module_load(const char *module);

/*
 * Unloads io_peer_mem if no function is bound and its parameters name no other memory, and then (@core)
 * ib_peer_mem if nothing else uses it. What the administrator has loaded at boot stays.
 */
void modules_unload_unused(bool core);

#endif /* MODULES_H */
