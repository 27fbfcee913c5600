/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The field of a thread: addresses at which it maps and names dma-bufs of the test exporter, and
 * what is there. fuzz_field.c and fuzz_label.c change it, fuzz_part.c registers parts of it.
 */
#ifndef FUZZ_FIELD_H
#define FUZZ_FIELD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter.h"
#include "fuzz.h"

#define FIELD_PAGES 24
#define BUFFERS 4
#define BUFFER_PAGES 8	/* at the most */
#define PARTS 6

/* A dma-buf. Only its thread maps and names it; others move and revoke it. */
struct buffer {
	pthread_mutex_t lock;	/* while its descriptors change, and while another thread uses them */
	struct exported exported;	/* control -1: none; dmabuf -1: closed */
	size_t pages;
	bool pinned_not;	/* it refuses to be pinned */
	bool revoked;		/* before it is */
	bool left;		/* an MR that is not known any more may hold it */
};

/* A page of the field. */
struct place {
	enum { FREE, HOST, MAPPED } kind;
	int prot;
	struct buffer *buffer;	/* of MAPPED */
	size_t offset;		/* in it, in pages */
};

/* A name. */
struct label {
	size_t first, pages;
	struct buffer *buffer;
	size_t offset;		/* in pages */
	unsigned int references;	/* 0: unused */
};

/* An MR of a range of the field. */
struct part {
	struct ibv_mr *mr;	/* NULL: unused */
	int adapter;		/* -1: soft RoCE */
	bool writable;
	struct buffer *buffer;	/* NULL: host memory, or not known any more */
	size_t offset;		/* in it, in bytes */
	char *at;
	size_t length;
	uint64_t changes;	/* of the field, when it was made */
};

struct field {
	char *base;
	struct buffer buffers[BUFFERS];
	struct place places[FIELD_PAGES];
	struct label labels[FIELD_PAGES];
	struct part parts[PARTS];
	uint64_t changes;	/* of the places */
	char *page[ADAPTERS];	/* host memory, for transfers */
	struct ibv_mr *page_mr[ADAPTERS];
};

/* --- fuzz_field.c --- */

char *field_page(const struct field *f, size_t page);
/* Counts a call whose result must be @want, unless memory is missing for it. */
void field_must(struct thread *t, enum op op, int error, int want);

/* --- fuzz_label.c --- */

/* The name of a page, or NULL. */
const struct label *label_at(const struct field *f, size_t page);
/* Removes the names of this dma-buf. */
void labels_end(struct thread *t, const struct buffer *b);
void fuzz_label(struct thread *t, size_t first, size_t pages);

/* --- fuzz_part.c --- */

void parts_begin(struct thread *t);
/* Deregisters them all, or those on this dma-buf. */
void parts_end(struct thread *t, const struct buffer *b);
/* As if its MRs were not known: the program does not use them any more. */
void parts_forget(struct thread *t, struct buffer *b);
void fuzz_part(struct thread *t, enum op op);

#endif /* FUZZ_FIELD_H */
