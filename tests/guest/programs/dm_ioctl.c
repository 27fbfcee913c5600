// SPDX-License-Identifier: GPL-2.0
/* The ioctls without the library, with valid and invalid arguments. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"
#include "dm.h"

static int try(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) ? errno : 0;
}

static int raw_free(int dm)
{
	struct io_peer_mem_dm_free f = { .version = IO_PEER_MEM_DM_VERSION };

	return try(dm, IO_PEER_MEM_IOC_DM_FREE, &f);
}

/* Reserved fields, versions and sizes in their bits are for KUnit (io_peer_mem_dm_abi). */
void test_abi(struct iopm_context *context)
{
	int bar = context->cmd_fd, dm = raw_alloc(bar, PAGE + 904, 0), files = open_files();
	const struct {
		unsigned long cmd;
		int right, wrong;	/* files: where the ioctl is, and where it is not */
	} ioctls[] = {
		{ IO_PEER_MEM_IOC_DM_ALLOC, bar, dm }, { IO_PEER_MEM_IOC_DM_CAPACITY, bar, dm },
		{ IO_PEER_MEM_IOC_DM_INFO, dm, bar }, { IO_PEER_MEM_IOC_DM_FREE, dm, bar },
	};
	struct io_peer_mem_dm_alloc a = { .version = IO_PEER_MEM_DM_VERSION, .length = UINT64_MAX };
	struct io_peer_mem_dm_info info;
	uint64_t room = dm_room(context);

	for (int i = 0; i < 4; i++) {
		uint64_t arg[8] = { IO_PEER_MEM_DM_VERSION };

		expect_errno("another file", try(ioctls[i].wrong, ioctls[i].cmd, arg), ENOTTY);
		/* A structure of another size has another number. */
		expect_errno("another size", try(ioctls[i].right, ioctls[i].cmd + (8 << _IOC_SIZESHIFT), arg),
			     ENOTTY);
		expect_errno("no structure", try(ioctls[i].right, ioctls[i].cmd, NULL), EFAULT);
		arg[0]++;
		expect_errno("another version", try(ioctls[i].right, ioctls[i].cmd, arg), EINVAL);
	}
	expect_errno("too long", try(bar, IO_PEER_MEM_IOC_DM_ALLOC, &a), ENOMEM);
	a.log_align = 62;
	expect_errno("too long, no such offset", try(bar, IO_PEER_MEM_IOC_DM_ALLOC, &a), EINVAL);
	expect_u64("files", open_files(), files);
	expect_u64("free", dm_room(context), room);
	expect_true("close on exec", fcntl(dm, F_GETFD) == FD_CLOEXEC);

	/* Output fields may hold anything on entry. */
	memset(&info, 0xff, sizeof(info));
	info.version = IO_PEER_MEM_DM_VERSION;
	info.flags = 0;
	memset(info.reserved, 0, sizeof(info.reserved));
	expect_errno("info", try(dm, IO_PEER_MEM_IOC_DM_INFO, &info), 0);
	expect_u64("length", info.length, PAGE + 904);
	expect_u64("size", info.size, 2 * PAGE);
	expect_u64("bar", info.bar, 2);
	expect_u64("pad", info.pad, 0);
	printf("%04x:%02x:%02x.%x\n", info.domain, info.address >> 8, info.address >> 3 & 31,
	       info.address & 7);
	expect_errno("an unknown number", try(bar, _IO(IO_PEER_MEM_IOC_MAGIC, 0x14), &a), ENOTTY);
	expect_true("write of a BAR", write(bar, &a, 8) < 0 && errno == EINVAL);

	expect_errno("free", raw_free(dm), 0);
	expect_u64("free", dm_room(context), room + 2 * PAGE);
	expect_errno("free again", raw_free(dm), ENODEV);
	expect_errno("info after free", try(dm, IO_PEER_MEM_IOC_DM_INFO, &info), ENODEV);
	expect_true("mmap after free", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dm, 0) ==
		    MAP_FAILED && errno == ENODEV);
	close(dm);
}

void test_compat(struct iopm_context *context)
{
	int bar = context->cmd_fd;
	struct io_peer_mem_dm_alloc *a = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct io_peer_mem_dm_info *info = (void *)(a + 1);

	expect_true("memory below 4 GiB", a != MAP_FAILED);
	a->version = info->version = IO_PEER_MEM_DM_VERSION;
	a->length = 12345;
	expect_errno("alloc", ioctl32(bar, IO_PEER_MEM_IOC_DM_ALLOC, a), 0);
	expect_errno("info", ioctl32(a->fd, IO_PEER_MEM_IOC_DM_INFO, info), 0);
	expect_u64("length", info->length, 12345);
	expect_u64("where", info->bar_offset, a->bar_offset);
}

static int map_errno(int fd, size_t length, int prot, int flags, off_t offset)
{
	void *at = mmap(NULL, length, prot, flags, fd, offset);

	if (at == MAP_FAILED)
		return errno;
	munmap(at, length);
	return 0;
}

/* Returns whether smaps has @flag for the mapping at @addr. */
static bool has_vm_flag(volatile void *addr, const char *flag)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	bool here = false, has = false;
	unsigned long start, end;
	char line[512], word[8];

	if (!smaps)
		err(1, "smaps");
	snprintf(word, sizeof(word), " %s ", flag);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= (uintptr_t)addr && (uintptr_t)addr < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, word);
	}
	fclose(smaps);
	return has;
}

void test_map(struct iopm_context *context)
{
	int bar = context->cmd_fd, dm = raw_alloc(bar, 3 * PAGE - 5, 0);
	int rw = PROT_READ | PROT_WRITE;
	const struct {
		int fd;
		size_t length;
		int prot, flags;
		off_t offset;
		int error;
	} calls[] = {
		{ dm, 3 * PAGE, rw, MAP_SHARED, 0, 0 },
		{ dm, PAGE, rw, MAP_SHARED, 2 * PAGE, 0 },
		{ dm, PAGE, rw, MAP_PRIVATE, 0, EINVAL },
		{ dm, PAGE, PROT_READ, MAP_PRIVATE, 0, EINVAL },
		{ dm, 4 * PAGE, rw, MAP_SHARED, 0, EINVAL },
		{ dm, PAGE, rw, MAP_SHARED, 3 * PAGE, EINVAL },
		{ dm, PAGE, rw, MAP_SHARED, 1LL << 50, EINVAL },
		{ bar, PAGE, rw, MAP_SHARED, PAGE, EINVAL },
	};
	volatile uint64_t *whole, *part;
	void *of_bar;
	struct io_peer_mem_range where = { 0 };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		printf("%s: %#zx bytes at %#llx: ", calls[i].flags == MAP_SHARED ? "shared" : "private",
		       calls[i].length, (long long)calls[i].offset);
		expect_errno("mmap", map_errno(calls[i].fd, calls[i].length, calls[i].prot, calls[i].flags,
					       calls[i].offset), calls[i].error);
	}
	whole = mmap(NULL, 3 * PAGE, rw, MAP_SHARED, dm, 0);
	part = mmap(NULL, PAGE, rw, MAP_SHARED, dm, 2 * PAGE);
	expect_true("mapped", whole != MAP_FAILED && part != MAP_FAILED);
	of_bar = mmap(NULL, PAGE, rw, MAP_SHARED, bar, 0);
	expect_true("mapped", of_bar != MAP_FAILED);
	/* A dump would read the device, and has no use for what another process writes later. */
	expect_true("no core dump of an allocation", has_vm_flag(whole, "dd"));
	expect_true("no core dump of a BAR", has_vm_flag(of_bar, "dd"));
	/* Nor does mremap() make a mapping longer than its memory. */
	expect_true("an allocation does not grow", has_vm_flag(whole, "de"));
	expect_true("a mapping of a BAR does not grow", has_vm_flag(of_bar, "de"));
	munmap(of_bar, PAGE);
	whole[2 * PAGE / 8 + 3] = 0x123456789abcdef0;
	expect_u64("the same word", part[3], 0x123456789abcdef0);
	where.addr = (uintptr_t)(part + 3);
	expect_errno("range", try(bar, IO_PEER_MEM_IOC_RANGE, &where), 0);
	expect_u64("length to the end", where.length, PAGE - 24);

	munmap((void *)whole, 3 * PAGE);
	expect_errno("free while a part is mapped", raw_free(dm), EBUSY);
	munmap((void *)part, PAGE);
	expect_errno("free", raw_free(dm), 0);
	expect_u64("free", dm_room(context), 64 << 20);
}

/* An allocation of a BAR opened read-only cannot be mapped writable, nor freed for others. */
void test_read_only(struct iopm_context *context)
{
	int bar = open(dm_path, O_RDONLY | O_CLOEXEC), dm = raw_alloc(bar, PAGE, 0);
	struct iopm_dm *import;
	uint64_t word;

	expect_true("mode", (fcntl(dm, F_GETFL) & O_ACCMODE) == O_RDONLY);
	expect_errno("to read", map_errno(dm, PAGE, PROT_READ, MAP_SHARED, 0), 0);
	expect_errno("to write", map_errno(dm, PAGE, PROT_WRITE, MAP_SHARED, 0), EACCES);
	expect_errno("to read and write",
		     map_errno(dm, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), EACCES);
	import = iopm_import_dm(context, dm);
	expect_true("import", import);
	expect_errno("a copy from it", iopm_memcpy_from_dm(&word, import, 0, sizeof(word)), 0);
	expect_errno("a copy to it", iopm_memcpy_to_dm(import, 0, &word, sizeof(word)), EBADF);
	iopm_unimport_dm(import);
	expect_errno("free", raw_free(dm), EBADF);
	expect_errno("to read after free", map_errno(dm, PAGE, PROT_READ, MAP_SHARED, 0), 0);
}

/* A failed allocation leaks neither files nor memory. */
void test_no_leak(struct iopm_context *context)
{
	int bar = context->cmd_fd, before = open_files();
	struct io_peer_mem_dm_alloc *a = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit limit, none;
	uint64_t room = dm_room(context);

	expect_true("mapped", a != MAP_FAILED);
	a->version = IO_PEER_MEM_DM_VERSION;
	a->length = 1 << 20;
	/* The result cannot be written back. */
	mprotect(a, PAGE, PROT_READ);
	for (int i = 0; i < 100; i++)
		expect_true("EFAULT", try(bar, IO_PEER_MEM_IOC_DM_ALLOC, a) == EFAULT);
	mprotect(a, PAGE, PROT_READ | PROT_WRITE);
	expect_u64("files", open_files(), before);
	expect_u64("free", dm_room(context), room);
	/* No file descriptor is free. */
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	for (int i = 0; i < 100; i++)
		expect_true("EMFILE", try(bar, IO_PEER_MEM_IOC_DM_ALLOC, a) == EMFILE);
	setrlimit(RLIMIT_NOFILE, &limit);
	expect_u64("free", dm_room(context), room);
	/* Closed without DM_FREE, while it is mapped. */
	for (int i = 0; i < 200; i++) {
		int dm = raw_alloc(bar, 1 << 20, 0);
		volatile char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, dm, 0);

		expect_true("mapped", at != MAP_FAILED);
		close(dm);
		at[i] = 1;
		munmap((void *)at, 1 << 20);
	}
	expect_u64("free", dm_room(context), room);
	expect_u64("files", open_files(), before);
}
