// SPDX-License-Identifier: GPL-2.0
/* Allocations, copies, and imports by other processes. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "dm.h"

#define BAR_SIZE (64ULL << 20)

/* Those of a program that knows no flags are what lies behind its structure. */
void test_flags(struct iopm_context *bar)
{
	struct iopm_alloc_dm_attr attr = { .length = PAGE, .flags = UINT32_MAX };

	dm_free(iopm_alloc_dm(bar, &attr));
	attr.comp_mask = IOPM_ALLOC_DM_MASK_FLAGS;
	expect_true("unknown flags", !iopm_alloc_dm(bar, &attr) && errno == EINVAL);
	attr.flags = IOPM_ALLOC_DM_ZERO;
	dm_free(iopm_alloc_dm(bar, &attr));
}

static uint64_t bar_offset(struct iopm_dm *dm)
{
	struct io_peer_mem_dm_info info = { .version = IO_PEER_MEM_DM_VERSION };

	if (ioctl((int)dm->handle, IO_PEER_MEM_IOC_DM_INFO, &info))
		err(1, "IO_PEER_MEM_IOC_DM_INFO");
	return info.bar_offset;
}

void test_alloc(struct iopm_context *bar)
{
	struct iopm_device_attr_ex attr;
	struct iopm_query_device_ex_input input = { .comp_mask = 1 };
	static const struct {
		size_t length;
		uint32_t log_align, comp_mask;
		int error;
	} bad[] = {
		{ 0, 0, 0, EINVAL }, { 1, 0, 2, EINVAL }, { 1, 0, 1U << 31, EINVAL }, { 1, 27, 0, EINVAL },
		{ 1, 63, 0, EINVAL }, { 1, UINT32_MAX, 0, EINVAL }, { BAR_SIZE + 1, 0, 0, ENOMEM },
		{ SIZE_MAX, 0, 0, ENOMEM },
	};
	struct iopm_dm *dm, *aligned;

	expect_errno("query", iopm_query_device_ex(bar, NULL, &attr), 0);
	expect_errno("query with an unknown input", iopm_query_device_ex(bar, &input, &attr),
		     EINVAL);
	expect_u64("max_dm_size", attr.max_dm_size, BAR_SIZE);
	expect_u64("free_dm_size", attr.free_dm_size, BAR_SIZE);
	expect_u64("largest_dm_size", attr.largest_dm_size, BAR_SIZE);
	expect_u64("dm_page_size", attr.dm_page_size, PAGE);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		printf("%#zx bytes aligned to 1 << %u, comp_mask %#x: ", bad[i].length, bad[i].log_align,
		       bad[i].comp_mask);
		expect_errno("allocation", dm_alloc_errno(bar, bad[i].length, bad[i].log_align,
							  bad[i].comp_mask), bad[i].error);
	}
	expect_u64("still free", dm_room(bar), BAR_SIZE);

	dm = dm_alloc(bar, 1, 0);
	expect_true("the handle is valid", dm->comp_mask & IOPM_DM_MASK_HANDLE);
	expect_true("the context is the BAR", dm->context == bar);
	expect_u64("free with one byte allocated", dm_room(bar), BAR_SIZE - PAGE);
	aligned = dm_alloc(bar, 5000, 21);
	expect_u64("the first that is aligned", bar_offset(aligned), 2 << 20);
	dm_free(aligned);
	dm_free(dm);
	dm = dm_alloc(bar, 3 * PAGE + 1, 0);
	expect_u64("free with three pages and a byte allocated", dm_room(bar), BAR_SIZE - 4 * PAGE);
	dm_free(dm);
	expect_u64("free again", dm_room(bar), BAR_SIZE);

	errno = 0;
	expect_true("/dev/null is not a BAR", !iopm_open_path("/dev/null") && errno == ENOTTY);
}

void test_copy(struct iopm_context *bar)
{
	struct iopm_dm *dm = dm_alloc(bar, LENGTH, 0);
	unsigned char want[128], got[136], host[128];
	const uint64_t at = PAGE - 96;

	/* Every alignment on both sides, over the end of a page; the bytes around stay unchanged. */
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = 0x80 | i;
	for (size_t to = 0; to < 17; to++) {
		for (size_t length = 0; length < 40; length++) {
			size_t from = length % 9;

			memset(want, 0x11, sizeof(want));
			expect_true("clear", !iopm_memcpy_to_dm(dm, at, want, sizeof(want)));
			memcpy(want + 32 + to, host + from, length);
			expect_true("write", !iopm_memcpy_to_dm(dm, at + 32 + to, host + from, length));
			expect_true("read", !iopm_memcpy_from_dm(got + to % 8, dm, at, sizeof(want)));
			expect_true("the bytes", !memcmp(got + to % 8, want, sizeof(want)));
			memset(got, 0x22, sizeof(got));
			expect_true("read", !iopm_memcpy_from_dm(got + 32 + from, dm, at + 32 + to, length));
			expect_true("the bytes", !memcmp(got + 32 + from, host + from, length) &&
				    got[31 + from] == 0x22 && got[32 + from + length] == 0x22);
		}
	}
	dm_free(dm);
}

void test_full(struct iopm_context *bar)
{
	struct iopm_dm *all = dm_alloc(bar, BAR_SIZE, 26), *some[200];
	struct iopm_device_attr_ex attr;
	int n = 0;

	expect_errno("one byte more", dm_alloc_errno(bar, 1, 0, 0), ENOMEM);
	expect_u64("free with all allocated", dm_room(bar), 0);
	dm_free(all);

	for (;;) {
		struct iopm_alloc_dm_attr attr = { .length = 1 << 20, .log_align_req = n % 21 };

		some[n] = iopm_alloc_dm(bar, &attr);
		if (!some[n])
			break;
		n++;
	}
	expect_errno("the last", errno, ENOMEM);
	expect_u64("MiB", n, 64);
	/* A hole of three pieces: its memory is free in one piece. */
	for (int i = 10; i < 13; i++)
		dm_free(some[i]);
	expect_errno("query", iopm_query_device_ex(bar, NULL, &attr), 0);
	expect_u64("free", attr.free_dm_size, 3 << 20);
	expect_u64("largest", attr.largest_dm_size, 3 << 20);
	for (int i = 10; i < 13; i++)
		some[i] = dm_alloc(bar, 1 << 20, 0);
	while (n--)
		dm_free(some[n]);
	all = dm_alloc(bar, BAR_SIZE, 0);
	dm_free(all);
	expect_u64("free", dm_room(bar), BAR_SIZE);
}

/* The other process, which has no file of the BAR. */
static void importer(int socket)
{
	struct iopm_dm *dm = iopm_import_dm(NULL, fd_receive(socket, 0));
	char byte = 0, text[16];
	volatile char *map;

	expect_true("import", dm);
	expect_true("read", !iopm_memcpy_from_dm(text, dm, PAGE - 6, sizeof(text)));
	expect_true("the text of the parent", !strcmp(text, "from the parent"));
	expect_true("write", !iopm_memcpy_to_dm(dm, PAGE - 6, "from the child ", sizeof(text)));
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, (int)dm->handle, 0);
	expect_true("map", map != MAP_FAILED && map[PAGE - 6] == text[0]);
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
		err(1, "socket");
}

void test_import(struct iopm_context *bar)
{
	struct iopm_dm *dm;
	int sockets[2], status;
	char byte, text[16];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		err(1, "socketpair");
	child = fork();
	if (!child) {
		close(sockets[0]);
		iopm_close_device(bar);
		importer(sockets[1]);
		exit(0);
	}
	close(sockets[1]);
	dm = dm_alloc(bar, PAGE + 904, 0);
	expect_true("write", !iopm_memcpy_to_dm(dm, PAGE - 6, "from the parent", 16));
	expect_errno("send the handle", fd_send(sockets[0], (int)dm->handle), 0);
	if (read(sockets[0], &byte, 1) != 1)
		errx(1, "the child failed");
	expect_errno("free while the child has it mapped", iopm_free_dm(dm), EBUSY);
	/* The failed free has changed nothing. */
	expect_true("read", !iopm_memcpy_from_dm(text, dm, PAGE - 6, sizeof(text)));
	expect_true("the text of the child", !strcmp(text, "from the child "));
	if (write(sockets[0], &byte, 1) != 1)
		err(1, "socket");
	if (waitpid(child, &status, 0) != child || status)
		errx(1, "the child ended with %#x", status);
	expect_errno("free", iopm_free_dm(dm), 0);
	expect_u64("free", dm_room(bar), BAR_SIZE);
}

/* mlockall() accesses the pages of each new mapping, also of those that the library makes. */
void test_locked(struct iopm_context *bar)
{
	struct iopm_dm *dm;
	char text[5] = "";

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(1, "mlockall");
	dm = dm_alloc(bar, 3 * PAGE, 0);
	expect_errno("write", iopm_memcpy_to_dm(dm, PAGE - 2, "text", 5), 0);
	expect_errno("read", iopm_memcpy_from_dm(text, dm, PAGE - 2, 5), 0);
	expect_true("the bytes", !strcmp(text, "text"));
	expect_errno("free", iopm_free_dm(dm), 0);
	expect_u64("free", dm_room(bar), BAR_SIZE);
	munlockall();
}

/* Allocations by several processes at once, some never freed explicitly. */
void test_stress(struct iopm_context *bar)
{
	int status, done = 0;

	for (int i = 0; i < 4; i++) {
		if (fork())
			continue;
		srand(i);
		for (int n = 0; n < 150; n++) {
			struct iopm_alloc_dm_attr attr = {
				.length = 1 + rand() % (2 << 20),
				.log_align_req = rand() % 22,
			};
			struct iopm_dm *dm = iopm_alloc_dm(bar, &attr);
			uint64_t word = (uint64_t)i << 32 | n, back = 0;

			if (!dm && errno == ENOMEM)
				continue;
			if (!dm)
				err(1, "iopm_alloc_dm");
			if (attr.length >= 8) {
				iopm_memcpy_to_dm(dm, attr.length - 8, &word, 8);
				usleep(rand() % 300);
				iopm_memcpy_from_dm(&back, dm, attr.length - 8, 8);
				if (back != word)
					errx(1, "another process wrote to this allocation");
			}
			if (n % 10)
				dm_free(dm);
		}
		exit(0);
	}
	while (wait(&status) > 0) {
		if (status)
			errx(1, "a process ended with %#x", status);
		done++;
	}
	expect_u64("processes", done, 4);
	expect_u64("free", dm_room(bar), BAR_SIZE);
}
