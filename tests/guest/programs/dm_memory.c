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

/* Returns whether memory that was written before is cleared by an allocation with these attributes. */
static bool clears(struct iopm_context *bar, struct iopm_alloc_dm_attr *attr)
{
	struct iopm_dm *dm = dm_alloc(bar, attr->length, 0);
	struct iopm_dm_attr before, after;
	static char bytes[MAX_PAGE];
	static const char zero[MAX_PAGE];
	bool same;

	memset(bytes, 0x5a, PAGE);
	expect_errno("write", iopm_memcpy_to_dm(dm, 0, bytes, PAGE), 0);
	expect_errno("query", iopm_query_dm(dm, &before), 0);
	dm_free(dm);
	dm = iopm_alloc_dm(bar, attr);
	if (!dm)
		err(1, "iopm_alloc_dm");
	expect_errno("query", iopm_query_dm(dm, &after), 0);
	expect_u64("the same place", after.bar_offset, before.bar_offset);
	memset(bytes, 1, PAGE);
	expect_errno("read", iopm_memcpy_from_dm(bytes, dm, 0, PAGE), 0);
	same = !memcmp(bytes, zero, PAGE);
	dm_free(dm);
	return same;
}

void test_flags(struct iopm_context *bar)
{
	struct iopm_alloc_dm_attr attr = {
		.length = PAGE,
		.comp_mask = IOPM_ALLOC_DM_MASK_FLAGS,
		.flags = IOPM_ALLOC_DM_ZERO,
	};

	expect_true("with the flag it is cleared", clears(bar, &attr));
	/* Those of a program that knows no flags are what lies behind its structure. */
	attr.comp_mask = 0;
	attr.flags = UINT32_MAX;
	clears(bar, &attr);
	attr.comp_mask = IOPM_ALLOC_DM_MASK_FLAGS;
	errno = 0;
	expect_true("unknown flags", !iopm_alloc_dm(bar, &attr) && errno == EINVAL);
}

void test_alloc(struct iopm_context *bar)
{
	struct iopm_device_attr_ex attr;
	struct iopm_query_device_ex_input input = { .comp_mask = 1 };
	struct iopm_dm *dm;

	expect_errno("query", iopm_query_device_ex(bar, NULL, &attr), 0);
	expect_errno("query with an unknown input", iopm_query_device_ex(bar, &input, &attr),
		     EINVAL);
	expect_u64("max_dm_size", attr.max_dm_size, BAR_SIZE);
	expect_u64("free_dm_size", attr.free_dm_size, BAR_SIZE);
	expect_u64("largest_dm_size", attr.largest_dm_size, BAR_SIZE);
	expect_u64("dm_page_size", attr.dm_page_size, PAGE);

	expect_errno("length 0", dm_alloc_errno(bar, 0, 0, 0), EINVAL);
	expect_errno("comp_mask 2", dm_alloc_errno(bar, 1, 0, 2), EINVAL);
	expect_errno("comp_mask 1 << 31", dm_alloc_errno(bar, 1, 0, 1U << 31), EINVAL);
	expect_errno("alignment 2 * BAR", dm_alloc_errno(bar, 1, 27, 0), EINVAL);
	expect_errno("alignment 1 << 63", dm_alloc_errno(bar, 1, 63, 0), EINVAL);
	expect_errno("alignment 1 << 64", dm_alloc_errno(bar, 1, 64, 0), EINVAL);
	expect_errno("alignment 1 << UINT32_MAX", dm_alloc_errno(bar, 1, UINT32_MAX, 0), EINVAL);
	expect_errno("BAR + 1 byte", dm_alloc_errno(bar, BAR_SIZE + 1, 0, 0), ENOMEM);
	expect_errno("SIZE_MAX", dm_alloc_errno(bar, SIZE_MAX, 0, 0), ENOMEM);
	expect_errno("SIZE_MAX / 2 + 1", dm_alloc_errno(bar, SIZE_MAX / 2 + 1, 0, 0), ENOMEM);
	expect_u64("still free", dm_room(bar), BAR_SIZE);

	dm = dm_alloc(bar, 1, 0);
	expect_true("the handle is valid", dm->comp_mask & IOPM_DM_MASK_HANDLE);
	expect_true("the context is the BAR", dm->context == bar);
	expect_u64("free with one byte allocated", dm_room(bar), BAR_SIZE - PAGE);
	dm_free(dm);
	dm = dm_alloc(bar, 3 * PAGE + 1, 0);
	expect_u64("free with three pages and a byte allocated", dm_room(bar), BAR_SIZE - 4 * PAGE);
	dm_free(dm);
	expect_u64("free again", dm_room(bar), BAR_SIZE);

	errno = 0;
	expect_true("/dev/null is not a BAR", !iopm_open_path("/dev/null") && errno == ENOTTY);
}

static uint64_t bar_offset(struct iopm_dm *dm)
{
	struct io_peer_mem_dm_info info = { .version = IO_PEER_MEM_DM_VERSION };

	if (ioctl((int)dm->handle, IO_PEER_MEM_IOC_DM_INFO, &info))
		err(1, "IO_PEER_MEM_IOC_DM_INFO");
	return info.bar_offset;
}

void test_align(struct iopm_context *bar)
{
	struct iopm_dm *hole[8], *aligned[8], *dm, *pages[16];

	/* Free every other page, then try all alignments. */
	for (int i = 0; i < 16; i++)
		pages[i] = dm_alloc(bar, 1, 0);
	for (int i = 0; i < 16; i += 2)
		dm_free(pages[i]);
	for (uint32_t log_align = 0; log_align <= 25; log_align++) {
		dm = dm_alloc(bar, 5000, log_align);
		expect_u64("misalignment", bar_offset(dm) & ((1ULL << log_align) - 1), 0);
		dm_free(dm);
	}
	/* Only offset 0 has this alignment, and it is in use. */
	dm = dm_alloc(bar, 1, 26);
	expect_errno("a second one with the alignment of the BAR", dm_alloc_errno(bar, 1, 26, 0),
		     ENOMEM);
	dm_free(dm);
	for (int i = 1; i < 16; i += 2)
		dm_free(pages[i]);
	expect_u64("free", dm_room(bar), BAR_SIZE);

	/*
	 * Eight times: a page, 4 MiB less two pages, a page, 4 MiB. Then free all
	 * pieces of the second kind, and one aligned piece of 4 MiB.
	 */
	for (int i = 0; i < 8; i++) {
		pages[i] = dm_alloc(bar, PAGE, 0);
		hole[i] = dm_alloc(bar, (4 << 20) - 2 * PAGE, 0);
		pages[8 + i] = dm_alloc(bar, PAGE, 0);
		aligned[i] = dm_alloc(bar, 4 << 20, 0);
		expect_u64("the expected layout", bar_offset(aligned[i]), (i * 8 + 4) << 20);
	}
	for (int i = 0; i < 8; i++)
		dm_free(hole[i]);
	dm_free(aligned[6]);
	dm = dm_alloc(bar, 3 << 20, 22);
	expect_u64("the only aligned hole of many", bar_offset(dm), 52 << 20);
	dm_free(dm);
	dm = dm_alloc(bar, 4 << 20, 22);
	expect_u64("the only hole", bar_offset(dm), 52 << 20);
	expect_errno("no other hole", dm_alloc_errno(bar, 3 << 20, 22, 0), ENOMEM);
	dm_free(dm);
	for (int i = 0; i < 8; i++) {
		dm_free(pages[i]);
		dm_free(pages[8 + i]);
		if (i != 6)
			dm_free(aligned[i]);
	}
	expect_u64("free", dm_room(bar), BAR_SIZE);
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

	expect_errno("to the end", iopm_memcpy_to_dm(dm, LENGTH - 10, host, 10), 0);
	expect_errno("nothing, at the end", iopm_memcpy_to_dm(dm, LENGTH, host, 0), 0);
	/* The last page extends beyond the allocation. */
	expect_errno("past the end", iopm_memcpy_to_dm(dm, LENGTH - 10, host, 11), EINVAL);
	expect_errno("from past the end", iopm_memcpy_to_dm(dm, LENGTH + 1, host, 0), EINVAL);
	expect_errno("wraps", iopm_memcpy_to_dm(dm, UINT64_MAX, host, 2), EINVAL);
	expect_errno("SIZE_MAX bytes", iopm_memcpy_to_dm(dm, 1, host, SIZE_MAX), EINVAL);
	expect_errno("back, past the end", iopm_memcpy_from_dm(got, dm, LENGTH - 10, 11), EINVAL);
	expect_errno("back, from past the end", iopm_memcpy_from_dm(got, dm, LENGTH + 1, 0), EINVAL);
	expect_errno("back, wraps", iopm_memcpy_from_dm(got, dm, UINT64_MAX - 1, 2), EINVAL);
	dm_free(dm);
}

void test_full(struct iopm_context *bar)
{
	struct iopm_dm *all = dm_alloc(bar, BAR_SIZE, 26), *some[200];
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
	while (n--)
		dm_free(some[n]);
	all = dm_alloc(bar, BAR_SIZE, 0);
	dm_free(all);
	expect_u64("free", dm_room(bar), BAR_SIZE);
}

/* The free bytes and the largest free piece. */
static void expect_space(struct iopm_context *bar, uint64_t free, uint64_t largest)
{
	struct iopm_device_attr_ex attr;

	if ((errno = iopm_query_device_ex(bar, NULL, &attr)))
		err(1, "iopm_query_device_ex");
	expect_u64("free", attr.free_dm_size, free);
	expect_u64("largest", attr.largest_dm_size, largest);
}

/* Exact figures, the first fit, and no memory lost to fragments. */
void test_fragmented(struct iopm_context *bar)
{
	struct iopm_dm *some[64], *dm;

	for (int i = 0; i < 64; i++)
		some[i] = dm_alloc(bar, 1 << 20, 0);
	expect_space(bar, 0, 0);
	for (int i = 0; i < 64; i += 2)
		dm_free(some[i]);
	expect_space(bar, 32 << 20, 1 << 20);
	expect_errno("two pieces", dm_alloc_errno(bar, (1 << 20) + 1, 0, 0), ENOMEM);
	dm_free(dm_alloc(bar, 1 << 20, 22));
	expect_space(bar, 32 << 20, 1 << 20);

	/* A hole of three pieces, and a page in the middle of it. */
	dm_free(some[11]);
	expect_space(bar, 33 << 20, 3 << 20);
	dm = dm_alloc(bar, PAGE, 21);
	expect_u64("the first fit", bar_offset(dm), 0);
	dm_free(dm);
	dm = dm_alloc(bar, (1 << 20) + PAGE, 0);
	expect_u64("the only fit", bar_offset(dm), 10 << 20);
	expect_space(bar, (32 << 20) - PAGE, (2 << 20) - PAGE);
	dm_free(dm);
	for (int i = 1; i < 64; i += 2)
		if (i != 11)
			dm_free(some[i]);
	expect_space(bar, BAR_SIZE, BAR_SIZE);
}

/* The other process, which has no file of the BAR. */
static void importer(int socket)
{
	int fd = fd_receive(socket, 0), other = open("/dev/null", 0);
	struct iopm_dm *dm = iopm_import_dm(NULL, fd);
	char byte = 0, text[16];
	volatile char *map;

	if (fd < 0)
		errx(1, "no file came through the socket");
	if (!dm)
		err(1, "iopm_import_dm");
	close(fd);
	expect_true("read", !iopm_memcpy_from_dm(text, dm, PAGE - 6, sizeof(text)));
	expect_true("the text of the parent", !strcmp(text, "from the parent"));
	expect_true("write", !iopm_memcpy_to_dm(dm, PAGE - 6, "from the child ", sizeof(text)));
	expect_true("write", !iopm_memcpy_to_dm(dm, 0, text, 1));
	expect_errno("bounds of the import", iopm_memcpy_to_dm(dm, PAGE + 904, text, 1), EINVAL);
	expect_true("no file", !iopm_import_dm(NULL, 12345) && errno == EBADF);
	expect_true("another file", !iopm_import_dm(NULL, other) && errno == EINVAL);
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, (int)dm->handle, 0);
	expect_true("map", map != MAP_FAILED && *map == text[0]);
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
		err(1, "socket");
	munmap((void *)map, PAGE);
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
		err(1, "socket");
	expect_errno("read of freed memory", iopm_memcpy_from_dm(text, dm, PAGE - 6, 1), ENODEV);
	expect_errno("write to freed memory", iopm_memcpy_to_dm(dm, PAGE - 6, text, 1), ENODEV);
	iopm_unimport_dm(dm);
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
	expect_true("read", !iopm_memcpy_from_dm(text, dm, PAGE - 6, sizeof(text)));
	expect_true("the text of the child", !strcmp(text, "from the child "));
	expect_errno("free while the child has it mapped", iopm_free_dm(dm), EBUSY);
	/* The failed free has changed nothing. */
	expect_true("read", !iopm_memcpy_from_dm(text, dm, PAGE - 6, sizeof(text)));
	expect_true("still there", !strcmp(text, "from the child "));
	if (write(sockets[0], &byte, 1) != 1 || read(sockets[0], &byte, 1) != 1)
		err(1, "socket");
	/* The child's import uses no page: copies are by the kernel. */
	expect_errno("free", iopm_free_dm(dm), 0);
	if (write(sockets[0], &byte, 1) != 1)
		err(1, "socket");
	if (waitpid(child, &status, 0) != child || status)
		errx(1, "the child ended with %#x", status);
	expect_u64("free", dm_room(bar), BAR_SIZE);
}

/* Where a mapping of device memory begins. */
static char *mapped_at(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long at = 0;
	char line[512];

	while (maps && !at && fgets(line, sizeof(line), maps))
		if (strstr(line, "io_peer_mem"))
			at = strtoul(line, NULL, 16);
	expect_true("a mapping", at);
	fclose(maps);
	return (char *)at;
}

/* A child has not the library's mapping, and may have memory of its own at the address. */
void test_fork(struct iopm_context *bar)
{
	struct iopm_dm *dm = dm_alloc(bar, PAGE, 0);
	char *at = mapped_at();
	int status;
	pid_t child = fork();

	if (!child) {
		expect_true("the address is free", mmap(at, PAGE, PROT_READ | PROT_WRITE,
							MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
							-1, 0) == at);
		*at = 1;
		errno = 0;
		expect_errno("export of other memory",
			     iopm_export_dmabuf(dm, 0, PAGE) < 0 ? errno : 0, EINVAL);
		iopm_unimport_dm(dm);
		expect_true("the child's memory", *(volatile char *)at == 1);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		errx(1, "the child ended with %#x", status);
	dm_free(dm);
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
