/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the fuzzer. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096
#define BARS 2
#define THREADS 16

/* The calls; each has a line in the final table. */
enum op {
	OP_RANGE,
	OP_NEAREST,
	OP_ALLOC,
	OP_CAPACITY,
	OP_INFO,
	OP_FREE,
	OP_EXPORT,
	OP_NAME,
	OP_UNNAME,
	OP_QUERY,
	OP_NO_IOCTL,	/* an unknown number */
	OP_OPEN,
	OP_MMAP,
	OP_MAPPING,	/* changes of mappings */
	OP_ACCESS,	/* by this process, or by a system call with a buffer in device memory */
	OP_FORK,
	OP_BUFFER,	/* dma-bufs of the test exporter: creates, moves and revokes them */
	OP_REG_MR,
	OP_REREG_MR,
	OP_DEREG_MR,
	OPS,
};

/*
 * What a descriptor is, mostly. All threads share the descriptors and replace their files at any time;
 * none is ever closed, or another file of the program could get its number.
 */
enum kind { BAR, DM, DMABUF, KINDS };

struct thread {
	int number;
	uint64_t random, call;
	enum op op;
	char *args;		/* a page, and one that cannot be accessed */
	char *arena;		/* addresses that only mappings of this thread use */
	int hunger;		/* for fault injection */
	bool starved;		/* its allocations may fail */
};

extern int export_device;	/* /dev/ib_peer_mem */
extern bool mistaken;		/* expect a wrong errno for an invalid structure */
extern bool unsteady;		/* devices may be removed or limited */

/* A random number less than @n, which is not 0. */
uint64_t below(struct thread *t, uint64_t n);
bool one_in(struct thread *t, unsigned int n);
#define PICK(t, list) ((list)[below(t, sizeof(list) / sizeof((list)[0]))])
/* A boundary value for a size or an address, or any value. */
uint64_t edge(struct thread *t);
/* A shared descriptor, mostly of this kind. put_file() replaces its file by @fd, and closes @fd. */
int pick_file(struct thread *t, enum kind kind);
void put_file(struct thread *t, enum kind kind, int fd);
/* Opens a BAR. Returns an errno. */
int open_bar(struct thread *t);
/* Lets allocations of the thread fail, or not. */
void starve(struct thread *t, bool on);
/* Reports a bug and ends the program. */
void bug(struct thread *t, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Counts the call of the thread. Its errno must be one of those in the table. */
void called(struct thread *t, int error);
/* --- the calls; fuzz_memory() and fuzz_rdma() return an errno --- */

void fuzz_ioctl(struct thread *t);

/* All threads map and name dma-bufs in the field. */
#define ARENA 0x200000000000ULL
#define FIELD 0x300000000000ULL
#define FIELD_PAGES 24
void arena_map(struct thread *t);
/* Some pages of the arena of the thread, or of the field. */
char *some_range(struct thread *t, size_t *length);
int fuzz_memory(struct thread *t);

void rdma_add(const char *name);
/* Whether there are devices for the call. */
bool rdma_has(enum op op);
int fuzz_rdma(struct thread *t);

#endif /* FUZZ_H */
