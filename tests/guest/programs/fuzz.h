/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the fuzzer share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE 4096
#define BARS 2

/* What is called; each has its line in the table at the end. */
enum op {
	OP_RANGE,
	OP_NEAREST,
	OP_ALLOC,
	OP_CAPACITY,
	OP_INFO,
	OP_FREE,
	OP_EXPORT,
	OP_NO_IOCTL,	/* numbers that there are not */
	OP_OPEN,
	OP_FILE,	/* what a file can do, and this one should not */
	OP_SWAP,	/* another file below a descriptor that others use */
	OP_PASS,	/* through a socket, or left in one */
	OP_MMAP,
	OP_MUNMAP,
	OP_MPROTECT,
	OP_MADVISE,
	OP_MREMAP,
	OP_TOUCH,
	OP_COPY,	/* the kernel reads or writes device memory for us */
	OP_FORK,
	OP_REG_MR,
	OPS,
};

struct bar {
	const char *path;
	uint64_t size;
	uint32_t domain, address;
};

enum kind { NONE, BAR, DM };

/* An open file. Of the shared ones only @fd is known. */
struct file {
	int fd;
	enum kind kind;
	int bar;
	int access;		/* O_ACCMODE of how it was opened */
	ino_t node;		/* tells a BAR from the same after another bind */
	bool freed;
	uint64_t offset, length;	/* of DM: where in the BAR, and bytes */
};

/* A mapping that this thread has made. */
struct held {
	char *addr;
	size_t length;		/* 0: there is none */
	bool claimed;		/* these pages of a BAR: */
	int bar;
	ino_t node;
	uint64_t offset;
};

#define PRIVATE_BARS 2
#define PRIVATE_FILES 8		/* those of the BARs first */
#define SHARED_FILES 8
#define HELD 16
#define MRS 4
#define ARENA_PAGES 2048

struct thread {
	pthread_t id;
	int number;
	uint64_t random;
	uint64_t iteration;
	enum op op;
	struct file files[PRIVATE_FILES];
	struct held held[HELD];
	struct ibv_mr *mrs[MRS];
	char *arena;		/* addresses for mappings, and only for these */
	char *args, *alias;	/* see fuzz_ioctl.c */
	struct {
		uint64_t calls, good;
		uint32_t errnos[160];
	} count[OPS];
};

extern struct bar bars[BARS];
extern int shared[SHARED_FILES];
extern struct ibv_pd *pd;
extern int export_device;	/* -1: there is none */
extern int own_memory;		/* /proc/self/mem */
extern bool compat;		/* this kernel has system calls of 32 bits */
extern bool mistaken;		/* about the errno of a wrong structure */

/* --- fuzz.c --- */

uint64_t any(struct thread *t);
/* Less than @n, which is not 0. */
uint64_t below(struct thread *t, uint64_t n);
bool one_in(struct thread *t, unsigned int n);
/* A value at which code goes wrong, for a size or an address; or any. */
uint64_t edge(struct thread *t);

/* Ends it all: something is not as it has to be. */
void bug(struct thread *t, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* Counts a call; its errno has to be one of @allowed, which ends with 0. */
void called(struct thread *t, enum op op, int error, const int *allowed);
#define ONE_OF(...) ((const int[]){ __VA_ARGS__, 0 })

/* Reads or writes memory that may not be there: was it? */
bool touch(volatile char *at, bool write);

/* --- fuzz_claim.c: who has which page of a BAR --- */

bool claim(int bar, ino_t node, uint64_t offset, uint64_t bytes);
void unclaim(int bar, ino_t node, uint64_t offset, uint64_t bytes);

/* --- fuzz_ioctl.c --- */

void args_map(struct thread *t);
void fuzz_ioctl(struct thread *t, enum op op);
/* Not fuzzed. Return an errno. */
int ask_range(int fd, const void *addr, uint64_t *offset, uint64_t *length);
int ask_capacity(int fd, uint64_t *total, uint64_t *free);

/* --- fuzz_file.c --- */

struct file *pick_bar(struct thread *t);
/* NULL: there is none. */
struct file *pick_dm(struct thread *t);
int pick_shared(struct thread *t);
/* For a new allocation; what is in there is closed. */
struct file *slot_for_dm(struct thread *t);
void file_close(struct file *f);
/* Another file of the same BAR. */
void file_reopen(struct thread *t, struct file *f);
void fuzz_file(struct thread *t, enum op op);

/* --- fuzz_map.c --- */

void arena_map(struct thread *t);
void arena_unmap(struct thread *t);
/* An address in the arena, at a page or not. */
char *arena_any(struct thread *t);
/* NULL: there is none. */
const struct held *pick_held(struct thread *t);
void fuzz_map(struct thread *t, enum op op);
void mrs_free(struct thread *t);

#endif /* FUZZ_H */
