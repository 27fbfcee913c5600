// SPDX-License-Identifier: GPL-2.0
/*
 * The table of the calls, and the counts of their results.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

/*
 * The weight of each call, the one with -l if it differs, and the percentage of its calls
 * that must succeed: a call that always fails tests little.
 */
static const struct {
	const char *name;
	int weight, good, lively;
} ops[OPS] = {
	[OP_RANGE] = { "RANGE", 100, 5, 40 },
	[OP_NEAREST] = { "NEAREST", 40, 10 },
	[OP_ALLOC] = { "DM_ALLOC", 80, 10 },
	[OP_CAPACITY] = { "DM_CAPACITY", 20, 20 },
	[OP_INFO] = { "DM_INFO", 100, 10, 40 },
	[OP_FREE] = { "DM_FREE", 60, 5 },
	[OP_EXPORT] = { "EXPORT", 20, 5 },
	[OP_NAME] = { "NAME", 40, 1 },
	[OP_UNNAME] = { "UNNAME", 10, 1 },
	[OP_QUERY] = { "QUERY", 20, 1 },
	[OP_NO_IOCTL] = { "wrong ioctls", 20, 0, 4 },
	[OP_OPEN] = { "open", 2, 0 },
	[OP_FILE] = { "file calls", 80, 0 },
	[OP_SWAP] = { "dup3", 8, 0 },
	[OP_PASS] = { "SCM_RIGHTS", 2, 0 },
	[OP_MMAP] = { "mmap", 60, 10 },
	[OP_MUNMAP] = { "munmap", 16, 10 },
	[OP_MPROTECT] = { "mprotect", 12, 5 },
	[OP_MADVISE] = { "madvise", 12, 5 },
	[OP_MREMAP] = { "mremap", 12, 2 },
	[OP_TOUCH] = { "memory access", 40, 5 },
	[OP_COPY] = { "copies", 15, 5 },
	[OP_FORK] = { "fork", 1, 0, 4 },
	[OP_REG_MR] = { "ibv_reg_mr", 4, 1, 60 },
	[OP_REREG_MR] = { "re-registrations", 4, 1, 60 },
	[OP_TRANSFER] = { "transfers", 1, 1, 30 },
	[OP_BUFFER] = { "dma-bufs", 20, 20 },
	[OP_FIELD] = { "their mappings", 40, 20 },
	[OP_LABEL] = { "their names", 40, 10 },
	[OP_REG_PART] = { "their MRs", 40, 10, 60 },
	[OP_DMA] = { "their DMA", 2, 5, 8 },
};

int weight(enum op op)
{
	return lively && ops[op].lively ? ops[op].lively : ops[op].weight;
}

const char *name_of(enum op op)
{
	return ops[op].name;
}

static const char *error_name(int error)
{
	return error ? strerrorname_np(error) : "ok";
}

void called(struct thread *t, enum op op, int error, const int *allowed)
{
	t->count[op].calls++;
	if (!error) {
		t->count[op].good++;
		return;
	}
	while (*allowed && *allowed != error)
		allowed++;
	/*
	 * Memory may be missing for the call, for a page of its argument, or for a socket: soft RoCE
	 * has one for each queue pair, and the kernel says ENFILE.
	 */
	if (!*allowed && t->starved &&
	    (error == ENOMEM || error == EFAULT || (error == ENFILE && op >= OP_REG_MR))) {
		t->count[op].errnos[error]++;
		return;
	}
	/* A small kernel lacks system calls, but not our ioctls. */
	if (!*allowed && (error != ENOSYS || op < OP_FILE))
		bug(t, "%s is no errno of %s", error_name(error), ops[op].name);
	t->count[op].errnos[error]++;
}

struct count *map_counts(const char *path, int n)
{
	size_t size = sizeof(struct count) * OPS * n;
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	struct count *counts;

	if (path && (fd < 0 || ftruncate(fd, size)))
		err(1, "%s", path);
	counts = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
	if (counts == MAP_FAILED)
		err(1, "mmap of the counts");
	if (path)
		close(fd);
	return counts;
}

void add_counts(struct count *sum, const struct count *counts, int n)
{
	for (int i = 0; i < OPS * n; i++) {
		struct count *to = &sum[i % OPS];

		to->calls += counts[i].calls;
		to->good += counts[i].good;
		for (int error = 0; error < ERRNOS; error++)
			to->errnos[error] += counts[i].errnos[error];
	}
}

bool print_results(const struct count *counts, bool devices_leave)
{
	bool enough = true;

	for (enum op op = 0; op < OPS; op++) {
		uint64_t sum = counts[op].calls, good = counts[op].good;
		uint64_t reached = sum - (devices_leave ? counts[op].errnos[ENODEV] : 0);

		if (!sum)
			continue;
		printf("%-16s %7llu, %3llu%% ok", ops[op].name, (unsigned long long)sum,
		       (unsigned long long)(100 * good / sum));
		for (int error = 1; error < ERRNOS; error++)
			if (counts[op].errnos[error])
				printf(", %s %u", error_name(error), counts[op].errnos[error]);
		printf("\n");
		/* A few calls prove nothing; but one of many has to reach its device. */
		if (sum >= 500 && 100 * good < ops[op].good * (reached >= 500 ? reached : 1)) {
			printf("less than %d%% of these succeeded\n", ops[op].good);
			enough = false;
		}
	}
	return enough;
}

int report(char **paths)
{
	static struct count sum[OPS];
	uint64_t calls = 0;

	for (; *paths; paths++) {
		int fd = open(*paths, O_RDONLY | O_CLOEXEC);
		struct stat s;
		struct count *counts;

		if (fd < 0 || fstat(fd, &s))
			err(1, "%s", *paths);
		if (s.st_size) {
			counts = mmap(NULL, s.st_size, PROT_READ, MAP_SHARED, fd, 0);
			if (counts == MAP_FAILED)
				err(1, "%s", *paths);
			add_counts(sum, counts, s.st_size / sizeof(*counts) / OPS);
			munmap(counts, s.st_size);
		}
		close(fd);
	}
	print_results(sum, false);
	for (enum op op = 0; op < OPS; op++)
		calls += sum[op].calls;
	printf("fuzz: %llu calls\n", (unsigned long long)calls);
	return 0;
}

