/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of dm_test. */
#ifndef DM_TEST_H
#define DM_TEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <io_peer_mem.h>
#include <iopm.h>

#include "verbs.h"

#define PAGE 4096
#define ACCESS_DM (ACCESS_ALL | IBV_ACCESS_ZERO_BASED)

/* A failed expectation ends the test. */
void expect_errno(const char *what, int got, int want);
void expect_u64(const char *what, uint64_t got, uint64_t want);
void expect_true(const char *what, bool ok);

/* A failure ends the test. */
struct iopm_context *dm_open(const char *bar);
struct iopm_dm *dm_alloc(struct iopm_context *bar, size_t length, uint32_t log_align);
void dm_free(struct iopm_dm *dm);
uint64_t dm_room(struct iopm_context *bar);

/* Returns the errno of an allocation that must fail; 0 if it succeeds. */
int dm_alloc_errno(struct iopm_context *bar, size_t length, uint32_t log_align,
		   uint32_t comp_mask);

/* The tests, listed in dm_test.c. @bar: the path of a BAR of 64 MiB. */
void test_alloc(const char *bar);
void test_flags(const char *bar);
void test_align(const char *bar);
void test_copy(const char *bar);
void test_full(const char *bar);
void test_fragmented(const char *bar);
void test_import(const char *bar);
void test_locked(const char *bar);
void test_reg(const char *bar);
void test_rdma(const char *bar);
void test_mr_keeps(const char *bar);
void test_gone(const char *bar);
void test_stress(const char *bar);
void test_abi(const char *bar);
void test_compat(const char *bar);
void test_map(const char *bar);
void test_zero(const char *bar);
void test_combine(const char *bar);
void test_read_write(const char *bar);
void test_signals(const char *bar);
void test_words(const char *bar);
void test_quota(const char *bar);
void test_read_only(const char *bar);
void test_scan(const char *bar);
void test_no_leak(const char *bar);
void test_list(const char *bar);
void test_query(const char *bar);
void test_dmabuf(const char *bar);

#endif /* DM_TEST_H */
