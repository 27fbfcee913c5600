/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the kernel has: RDMA devices, memory for RDMA, clients of ib_peer_mem. */
#ifndef STACK_H
#define STACK_H

#include <stdbool.h>
#include <stdint.h>

#include <iopm.h>

#include "pci.h"

/* The files of ib_peer_mem. debugfs is for root. */
#define PEERS "/sys/kernel/mm/memory_peers"
#define DEBUGFS "/sys/kernel/debug/ib_peer_mem"

bool module_loaded(const char *module);

/* Returns whether the running kernel has this module installed. */
bool module_installed(const char *module);

/* Returns whether the module is a part of the running kernel. */
bool module_builtin(const char *module);

/* --- RDMA devices --- */

struct adapter {
	char name[64];
	char function[PCI_NAME];	/* "" for a software device */
	char driver[64];
	char backend[32];		/* "" if it is not served */
	char can_fence[32];
};

struct adapters {
	struct adapter *list;
	int count;
	bool backends_known;		/* false: debugfs cannot be read */
};

struct adapters adapters_find(void);
void adapters_free(struct adapters *adapters);

/* --- memory --- */

enum memory_kind {
	MEMORY_BAR,		/* a BAR of io_peer_mem */
	MEMORY_P2P,		/* peer-to-peer memory of another driver: the CMB of an SSD */
	MEMORY_GPU,		/* a GPU, whose driver is the client */
};

struct memory {
	enum memory_kind kind;
	char name[64];			/* "0000:05:00.0/bar2", or the function */
	char path[96];			/* a file to map, or "" */
	struct pci_function function;
};

struct memories {
	struct memory *list;
	int count;
};

/* Finds the memory of a function, or all if @function is NULL. */
struct memories memories_find(const char *function);
void memories_free(struct memories *memories);

/* --- the distance of an adapter's function from memory --- */

struct distance {
	struct pci_route route;
	bool asked;		/* the kernel has answered; else it is read from the topology */
	bool reachable;		/* with asked */
};

bool distance_find(struct distance *distance, const struct memory *memory, const char *function);

/* Writes "4, bus addresses" to @text. */
void distance_text(const struct distance *distance, char *text, size_t size);

/* --- clients --- */

/* Reads a counter of a client; 0 without it. */
unsigned long long client_counter(const char *client, const char *counter);

/*
 * Reads what of a counter is left: more could have ended than begun when the two are read, so that is read
 * first, and the difference is never negative. @all is what has begun, or NULL.
 */
unsigned long long client_live(const char *client, const char *begun, const char *ended,
			       unsigned long long *all);

#endif /* STACK_H */
