/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the fuzzer. */
#ifndef FUZZ_H
#define FUZZ_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "verbs.h"

#define PAGE 4096
#define BARS 2

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
	OP_FILE,	/* file operations, which must fail or do nothing */
	OP_SWAP,	/* replaces the file of a shared descriptor */
	OP_PASS,	/* SCM_RIGHTS; the message may stay unread */
	OP_MMAP,
	OP_MUNMAP,
	OP_MPROTECT,
	OP_MADVISE,
	OP_MREMAP,
	OP_TOUCH,
	OP_COPY,	/* system calls with a buffer in device memory */
	OP_FORK,
	OP_REG_MR,
	OP_REREG_MR,	/* of any thread */
	OP_TRANSFER,	/* between two new MRs */
	/* Dma-bufs of the test exporter, and the test adapters */
	OP_BUFFER,	/* creates, closes, moves and revokes them */
	OP_FIELD,	/* changes where they are mapped */
	OP_LABEL,	/* changes what is named as them */
	OP_REG_PART,	/* ibv_reg_mr() there */
	OP_DMA,
	OPS,
};

struct bar {
	const char *path;
	uint64_t size;
	uint32_t domain, address;
};

enum kind { NONE, BAR, DM };

/* An open file. */
struct file {
	int fd;
	enum kind kind;
	int bar;
	int access;		/* its O_ACCMODE */
	ino_t node;		/* differs for each bind of the BAR */
	bool freed;
	uint64_t offset, length;	/* of DM: in the BAR */
};

/* A mapping of this thread. */
struct held {
	char *addr;
	size_t length;		/* 0: unused */
	bool claimed;		/* its pages of the BAR are claimed */
	int bar;
	ino_t node;
	uint64_t offset;
};

#define PRIVATE_BARS 2
#define PRIVATE_FILES 8		/* PRIVATE_BARS of BARs, then allocations */
#define SHARED_FILES 8
#define HELD 16
#define MRS 4
#define ARENA_PAGES 2048
/* The fields (fuzz_field.c) of all threads. */
#define FIELDS_START 0x300000000000ULL
#define FIELDS_END 0x310000000000ULL

struct thread {
	pthread_t id;
	int number;
	uint64_t random;
	uint64_t iteration;
	enum op op;
	struct file files[PRIVATE_FILES];
	struct held held[HELD];
	struct ibv_mr *mrs[MRS];
	uint32_t handles[MRS];	/* theirs, also of some that are gone */
	char *arena;		/* addresses that only mappings of this thread use */
	char *args;		/* see fuzz_ioctl.c */
	bool paired;
	struct pair pair;	/* for transfers */
	struct field *field;	/* NULL: there are no test adapters */
	int hunger;		/* for fault injection */
	bool starved;		/* its allocations may fail */
	struct count *count;	/* of each call */
};

#define ERRNOS 160

struct count {
	uint64_t calls, good;
	uint32_t errnos[ERRNOS];
};

extern struct bar bars[BARS];
extern int shared[SHARED_FILES];
extern struct rdma *rdma;	/* NULL: none */
extern struct ibv_pd *pd;
extern bool pd_imports;		/* dma-bufs, without pinning them */
extern struct ibv_pd *mr_pd;	/* of a context of its own, whose MRs any thread re-registers */
/* A test adapter (tests/adapter). */
struct adapter {
	const char *name;
	struct rdma rdma;
	bool pins;		/* the dma-bufs that it imports */
};

#define ADAPTERS 3

extern struct adapter adapters[ADAPTERS];
extern int n_adapters;
extern int export_device;	/* -1: no such device */
extern int own_memory;		/* /proc/self/mem */
extern bool compat;		/* the kernel has 32-bit system calls */
extern bool mistaken;		/* expect a wrong errno for an invalid structure */
extern bool hungry;		/* allocations of calls may fail */
extern bool lively;		/* rather map, register, transfer and fork */
extern bool unsteady;		/* the RDMA device may be removed or limited */

/* --- fuzz.c --- */

uint64_t any(struct thread *t);
/* Less than @n; @n is not 0. */
uint64_t below(struct thread *t, uint64_t n);
bool one_in(struct thread *t, unsigned int n);
/* A boundary value for a size or an address, or any value. */
uint64_t edge(struct thread *t);

struct thread *any_thread(struct thread *t);

/* Reports a bug and ends the program. */
void bug(struct thread *t, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* Reads or writes a byte. Returns false after SIGBUS or SIGSEGV. */
bool touch(volatile char *at, bool write);
/* Copies bytes. Returns false after SIGBUS or SIGSEGV. */
bool copy_guarded(volatile char *to, const volatile char *from, size_t n);

/* --- fuzz_count.c --- */

const char *name_of(enum op op);
/* How often it is called, relative to the others. */
int weight(enum op op);
/* Counts a call. Its errno must be in @allowed, a list that ends with 0. */
void called(struct thread *t, enum op op, int error, const int *allowed);
#define ONE_OF(...) ((const int[]){ __VA_ARGS__, 0 })
/* Maps the counts of @n threads, in a file unless @path is NULL. */
struct count *map_counts(const char *path, int n);
/* Adds the counts of @n threads to @sum, which has those of one. */
void add_counts(struct count *sum, const struct count *counts, int n);
/*
 * Prints a line per call. Returns false if one succeeded too rarely; if @devices_leave, of the calls
 * that have not ended with ENODEV.
 */
bool print_results(const struct count *sum, bool devices_leave);
/* Adds up and prints the counts in files. Returns the exit status. */
int report(char **paths);

/* --- fuzz_claim.c: the owners of a BAR's pages --- */

bool claim(int bar, ino_t node, uint64_t offset, uint64_t bytes);
void unclaim(int bar, ino_t node, uint64_t offset, uint64_t bytes);

/* --- fuzz_ioctl.c --- */

void args_map(struct thread *t);
void fuzz_ioctl(struct thread *t, enum op op);
/* Removes all names of the process, which hold dma-bufs. */
void unname_all(void);
/* With valid arguments. Return an errno. */
int ask_range(int fd, const void *addr, uint64_t *offset, uint64_t *length);
int ask_capacity(int fd, uint64_t *total, uint64_t *free);

/* --- fuzz_file.c --- */

struct file *pick_bar(struct thread *t);
/* NULL: none is open. */
struct file *pick_dm(struct thread *t);
int pick_shared(struct thread *t);
/* A slot for a new allocation; closes its old file. */
struct file *slot_for_dm(struct thread *t);
void file_close(struct file *f);
/* Replaces the file by a new one of a BAR. */
void file_reopen(struct thread *t, struct file *f);
void fuzz_file(struct thread *t, enum op op);

/* --- fuzz_map.c --- */

void arena_map(struct thread *t);
void arena_unmap(struct thread *t);
/* An address in the arena, page-aligned or not. */
char *arena_any(struct thread *t);
/* NULL: nothing is mapped. */
const struct held *pick_held(struct thread *t);
bool in_arena(struct thread *t, const char *at, uint64_t length);
/* Mostly a part of a mapping, else any pages. */
void piece(struct thread *t, char **at, uint64_t *length);
void fuzz_map(struct thread *t, enum op op);

/* --- fuzz_rdma.c --- */

/* In the thread, before its first call. */
void rdma_begin(struct thread *t);
/* Lets allocations of the thread fail, or not; nothing unless hungry. */
void starve(struct thread *t, bool on);
void fuzz_rdma(struct thread *t, enum op op);
void mrs_free(struct thread *t);
/* Deregisters it, unless it is NULL. */
void dereg(struct thread *t, struct ibv_mr **mr);

/* --- fuzz_field.c --- */

void field_map(struct thread *t);
void field_unmap(struct thread *t);
void fuzz_field(struct thread *t, enum op op);

/* --- fuzz_label.c --- */

/* In a child: names dma-bufs, executes another program, and so ends. */
void field_child(struct thread *t) __attribute__((noreturn));

#endif /* FUZZ_H */
