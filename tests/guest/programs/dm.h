/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of dm_test. */
#ifndef DM_TEST_H
#define DM_TEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <io_peer_mem.h>
#include <iopm.h>

#include "verbs.h"

/* The pages of this machine, and the largest of any. */
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define MAX_PAGE 65536
/* Two pages and a part of a third one. */
#define LENGTH (2 * PAGE + 1808)
#define ACCESS_DM (ACCESS_ALL | IBV_ACCESS_ZERO_BASED)

/* A failed expectation ends the test. */
void expect_errno(const char *what, int got, int want);
void expect_u64(const char *what, uint64_t got, uint64_t want);
void expect_true(const char *what, bool ok);

/* A failure ends the test. */
struct iopm_dm *dm_alloc(struct iopm_context *bar, size_t length, uint32_t log_align);
void dm_free(struct iopm_dm *dm);
uint64_t dm_room(struct iopm_context *bar);

/* Returns the errno of an allocation that must fail; 0 if it succeeds. */
int dm_alloc_errno(struct iopm_context *bar, size_t length, uint32_t log_align,
		   uint32_t comp_mask);

/* The path of the BAR. */
extern const char *dm_path;

/* Opens the RDMA device of the command line. */
struct rdma dm_rdma(void);

/* By the ioctl. Return the file; the first one returns -1 with errno set on failure. */
int raw_try_alloc(int bar, uint64_t length, uint32_t flags);
int raw_alloc(int bar, uint64_t length, uint32_t flags);

/* The tests. Each gets a BAR of 64 MiB, which is open for reading and writing. */
#define DM_TESTS(test) \
	test(alloc) test(flags) test(copy) test(full) test(import) test(locked) test(reg) test(rdma) \
	test(mr_keeps) test(gone) test(stress) test(abi) test(compat) test(map) test(zero) test(combine) \
	test(read_write) test(signals) test(words) test(quota) test(read_only) test(no_leak) \
	test(list) test(query) test(dmabuf)
#define DECLARE_TEST(name) void test_##name(struct iopm_context *bar);
DM_TESTS(DECLARE_TEST)

#endif /* DM_TEST_H */
