// SPDX-License-Identifier: GPL-2.0
/*
 * dm_test TEST BAR: one test of device memory, through libiopm or by its ioctls. BAR
 * has 64 MiB and no other user.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm.h"

static const struct {
	const char *name;
	void (*test)(const char *bar);
} tests[] = {
	{ "alloc", test_alloc },
	{ "flags", test_flags },
	{ "align", test_align },
	{ "copy", test_copy },
	{ "full", test_full },
	{ "fragmented", test_fragmented },
	{ "import", test_import },
	{ "locked", test_locked },
	{ "reg", test_reg },
	{ "rdma", test_rdma },
	{ "mr_keeps", test_mr_keeps },
	{ "gone", test_gone },
	{ "stress", test_stress },
	{ "abi", test_abi },
	{ "compat", test_compat },
	{ "map", test_map },
	{ "zero", test_zero },
	{ "combine", test_combine },
	{ "read_write", test_read_write },
	{ "signals", test_signals },
	{ "words", test_words },
	{ "quota", test_quota },
	{ "read_only", test_read_only },
	{ "scan", test_scan },
	{ "no_leak", test_no_leak },
	{ "list", test_list },
	{ "query", test_query },
	{ "dmabuf", test_dmabuf },
};

void expect_errno(const char *what, int got, int want)
{
	printf("%s: %s\n", what, got ? strerrorname_np(got) : "ok");
	if (got != want)
		errx(1, "%s: %s was expected", what, want ? strerrorname_np(want) : "ok");
}

void expect_u64(const char *what, uint64_t got, uint64_t want)
{
	printf("%s: %#llx\n", what, (unsigned long long)got);
	if (got != want)
		errx(1, "%s: %#llx was expected", what, (unsigned long long)want);
}

void expect_true(const char *what, bool ok)
{
	if (!ok)
		errx(1, "false: %s", what);
}

struct iopm_context *dm_open(const char *bar)
{
	struct iopm_context *context = iopm_open_path(bar);

	if (!context)
		err(1, "%s", bar);
	return context;
}

struct iopm_dm *dm_alloc(struct iopm_context *bar, size_t length, uint32_t log_align)
{
	struct iopm_alloc_dm_attr attr = { .length = length, .log_align_req = log_align };
	struct iopm_dm *dm = iopm_alloc_dm(bar, &attr);

	if (!dm)
		err(1, "iopm_alloc_dm of %zu bytes", length);
	return dm;
}

int dm_alloc_errno(struct iopm_context *bar, size_t length, uint32_t log_align,
		   uint32_t comp_mask)
{
	struct iopm_alloc_dm_attr attr = {
		.length = length,
		.log_align_req = log_align,
		.comp_mask = comp_mask,
	};

	return iopm_alloc_dm(bar, &attr) ? 0 : errno;
}

void dm_free(struct iopm_dm *dm)
{
	if ((errno = iopm_free_dm(dm)))
		err(1, "iopm_free_dm");
}

uint64_t dm_room(struct iopm_context *bar)
{
	struct iopm_device_attr_ex attr;

	if ((errno = iopm_query_device_ex(bar, NULL, &attr)))
		err(1, "iopm_query_device_ex");
	expect_true("largest <= free <= max", attr.largest_dm_size <= attr.free_dm_size &&
		    attr.free_dm_size <= attr.max_dm_size);
	return attr.free_dm_size;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3)
		errx(2, "usage: dm_test TEST BAR");
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(tests[i].name, argv[1]))
			continue;
		tests[i].test(argv[2]);
		printf("%s: done\n", argv[1]);
		return 0;
	}
	errx(2, "no such test: %s", argv[1]);
}
