// SPDX-License-Identifier: GPL-2.0
/* Contents of allocations: cleared memory, write-combining, read(2) and write(2), the quota. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "dm.h"

#define RW (PROT_READ | PROT_WRITE)

static uint64_t *must_map(int fd, size_t length, off_t offset)
{
	void *at = mmap(NULL, length, RW, MAP_SHARED, fd, offset);

	if (at == MAP_FAILED)
		err(1, "mmap of %#zx bytes at %#llx", length, (unsigned long long)offset);
	return at;
}

/* Is every word @word? */
static bool all_are(const volatile uint64_t *at, size_t length, uint64_t word)
{
	for (size_t i = 0; i < length / 8; i++)
		if (at[i] != word)
			return false;
	return true;
}

static void fill(volatile uint64_t *at, size_t length, uint64_t word)
{
	for (size_t i = 0; i < length / 8; i++)
		at[i] = word;
}

/* Leaves a word everywhere in the first @length bytes of the BAR. */
static void leave(int bar, size_t length)
{
	int fd = raw_alloc(bar, length, 0);
	uint64_t *at = must_map(fd, length, 0);

	fill(at, length, 0x4c454654);
	munmap(at, length);
	close(fd);
}

/* The BAR has a policy in the environment: never, free or alloc. */
void test_zero(struct iopm_context *context)
{
	const size_t length = 5 * PAGE + (2 << 20);
	const char *policy = getenv("ZERO") ?: "alloc";
	bool kept = strcmp(policy, "never") == 0;
	int bar = context->cmd_fd, fd;
	uint64_t *at;

	leave(bar, length);
	fd = raw_alloc(bar, length, 0);
	at = must_map(fd, length, 0);
	expect_true("without the flag it is as the policy says",
		    all_are(at, length, kept ? 0x4c454654 : 0));
	fill(at, length, 1);
	munmap(at, length);
	close(fd);

	fd = raw_alloc(bar, length - PAGE, IO_PEER_MEM_DM_ZERO);
	at = must_map(fd, length - PAGE, 0);
	expect_true("with the flag it is cleared", all_are(at, length - PAGE, 0));
	munmap(at, length - PAGE);
	close(fd);
	/* Nothing else was. */
	fd = raw_alloc(bar, length, 0);
	at = must_map(fd, length, 0);
	expect_u64("the page after it", at[(length - PAGE) / 8], kept ? 1 : 0);
	close(fd);
}

/* Asks caching_test.ko how the kernel has mapped @at. */
static void expect_caching(const void *at, const char *want)
{
	FILE *f = fopen("/sys/module/caching_test/parameters/address", "r+");
	char got[32] = "";

	if (!f)
		err(1, "caching_test");
	fprintf(f, "%#lx", (unsigned long)at);
	rewind(f);
	if (!fgets(got, sizeof(got), f))
		err(1, "caching_test");
	fclose(f);
	got[strcspn(got, "\n")] = 0;
	printf("%s\n", got);
	expect_true(want, !strcmp(got, want));
}

/* Only on x86 a mapping that is not combined permits accesses that are not aligned. */
#ifdef __x86_64__
#define PLAIN "uncached"
#else
#define PLAIN "write-combining"
#endif

/* Both kinds of mappings show the same bytes, of BARs and of allocations. */
void test_combine(struct iopm_context *context)
{
	const size_t length = 4 << 20;
	const off_t wc = IO_PEER_MEM_MMAP_WC;
	int bar = context->cmd_fd, fd = raw_alloc(bar, length, 0);
	uint64_t *plain = must_map(fd, length, 0), *combined = must_map(fd, length, wc), *part;
	struct io_peer_mem_range where = { 0 };

	expect_caching(plain, PLAIN);
	expect_caching(combined, "write-combining");
	fill(combined, length, 7);
	__sync_synchronize();
	expect_true("the same bytes", all_are(plain, length, 7));
	part = must_map(fd, PAGE, wc + 2 * PAGE);
	part[1] = 9;
	__sync_synchronize();
	expect_u64("at an offset", plain[2 * PAGE / 8 + 1], 9);
	expect_true("past the end", mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd,
					 wc + length - PAGE) == MAP_FAILED && errno == EINVAL);
	munmap(plain, length);
	munmap(combined, length);
	munmap(part, PAGE);
	close(fd);

	plain = must_map(bar, length, 0);
	expect_caching(plain, PLAIN);
	munmap(plain, length);
	combined = must_map(bar, length, wc);
	expect_caching(combined, "write-combining");
	combined[3] = 5;
	where.addr = (uintptr_t)(combined + 3);
	expect_true("range", !ioctl(bar, IO_PEER_MEM_IOC_RANGE, &where));
	expect_u64("its offset", where.bar_offset % PAGE, 24);
	expect_u64("its length", where.length, length - 24);
	expect_true("the BAR at an offset", mmap(NULL, PAGE, RW, MAP_SHARED, bar, wc + PAGE) ==
		    MAP_FAILED && errno == EINVAL);
}

void test_read_write(struct iopm_context *context)
{
	static char in[3 * MAX_PAGE], out[3 * MAX_PAGE];
	const size_t length = 2 * PAGE + 100;
	int bar = context->cmd_fd, fd = raw_alloc(bar, length, IO_PEER_MEM_DM_ZERO), read_only;
	char *at = (char *)must_map(fd, length, 0), byte;
	char *volatile nowhere = NULL;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = i * 7 + i / 251;
	/* Over two ends of pages, from inside of one. */
	expect_u64("pwrite", pwrite(fd, in, 2 * PAGE, 33), 2 * PAGE);
	expect_true("the mapping shows it", !memcmp(at + 33, in, 2 * PAGE));
	expect_true("and nothing before it", !at[32]);
	expect_u64("pread", pread(fd, out, 2 * PAGE, 33), 2 * PAGE);
	expect_true("the same bytes", !memcmp(in, out, 2 * PAGE));
	expect_u64("pread up to the end", pread(fd, out, 3 * PAGE, PAGE), PAGE + 100);
	expect_u64("pread at the end", pread(fd, out, 10, length), 0);
	expect_u64("pwrite up to the end", pwrite(fd, in, 200, length - 60), 60);
	expect_true("pwrite at the end", pwrite(fd, in, 1, length) < 0 && errno == ENOSPC);
	expect_u64("pwrite of nothing", pwrite(fd, in, 0, length), 0);
	expect_true("an offset below 0", pread(fd, out, 1, -1) < 0 && errno == EINVAL);
	expect_true("a pointer", pread(fd, nowhere, 8, 0) < 0 && errno == EFAULT);
	expect_true("a pointer", pwrite(fd, nowhere, 8, 0) < 0 && errno == EFAULT);
	/* One after the other, as dd does. */
	expect_u64("read", read(fd, out, PAGE), PAGE);
	expect_u64("read", read(fd, out, PAGE), PAGE);
	expect_u64("read", read(fd, out, PAGE), 100);
	expect_u64("read", read(fd, out, PAGE), 0);
	expect_true("of a BAR", read(bar, &byte, 1) < 0 && errno == EINVAL);
	read_only = open(dm_path, O_RDONLY);
	fd = raw_alloc(read_only, PAGE, 0);
	expect_u64("read only", pread(fd, &byte, 1, 0), 1);
	expect_true("no write", pwrite(fd, &byte, 1, 0) < 0 && errno == EBADF);
	close(read_only);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Copies all of @length bytes, again and again, until a signal makes a copy shorter. */
static size_t copy_under_signals(int fd, char *memory, size_t length, bool write)
{
	for (int i = 0; i < 200; i++) {
		ssize_t n = write ? pwrite(fd, memory, length, 0) : pread(fd, memory, length, 0);

		expect_true("a copy that makes progress", n > 0 && (size_t)n <= length);
		if ((size_t)n < length)
			return n;
	}
	errx(1, "no copy of %zu bytes is shorter, with a signal each millisecond", length);
}

/* A copy ends early if a signal comes, after whole pages. */
void test_signals(struct iopm_context *context)
{
	const struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	const struct sigaction action = { .sa_handler = on_alarm };
	const size_t length = 32 << 20;
	int bar = context->cmd_fd, fd = raw_alloc(bar, length, IO_PEER_MEM_DM_ZERO);
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	char *at = (char *)must_map(fd, length, 0);
	size_t n;

	expect_true("mapped", memory != MAP_FAILED);
	sigaction(SIGALRM, &action, NULL);
	for (int write = 1; write >= 0; write--) {
		memset(memory, write ? 0x5a : 1, length);
		setitimer(ITIMER_REAL, &each_ms, NULL);
		n = copy_under_signals(fd, memory, length, write);
		setitimer(ITIMER_REAL, &never, NULL);
		expect_u64("whole pages", n % PAGE, 0);
		/* Neither had what the other has. */
		expect_true("the last byte of it", at[n - 1] == memory[n - 1]);
	}
	close(fd);
}

/* Alternates between two values that differ in every byte, until end is set. */
struct writer {
	volatile uint64_t *word;
	volatile bool end;
};

static void *alternate(void *data)
{
	struct writer *w = data;

	/* One store in each turn: QEMU interrupts a CPU between turns, so with both it always had the same. */
	for (uint64_t value = 0; !w->end; value = ~value)
		*w->word = value;
	return NULL;
}

/* A copy by the kernel does not split an aligned word, which may be a counter that changes. */
void test_words(struct iopm_context *context)
{
	int bar = context->cmd_fd, fd = raw_alloc(bar, PAGE, IO_PEER_MEM_DM_ZERO), seen[2] = { 0 };
	struct writer w = { .word = must_map(fd, PAGE, 0) + 1 };
	uint64_t words[3];
	pthread_t thread;

	if (pthread_create(&thread, NULL, alternate, &w))
		errx(1, "pthread_create");
	/* On a busy machine the writer may not run during the first reads. */
	for (int i = 0; i < 30000 || (i < 1000000 && !(seen[0] && seen[1])); i++) {
		if (i >= 30000)
			sched_yield();
		/* From inside of a word to inside of a word. */
		expect_true("read", pread(fd, (char *)words + 5, 16, 5) == 16);
		if (words[1] + 1 > 1)
			errx(1, "read %#llx, half of each value", (unsigned long long)words[1]);
		seen[words[1] & 1]++;
	}
	w.end = true;
	pthread_join(thread, NULL);
	printf("values seen: %d and %d times\n", seen[0], seen[1]);
	expect_true("both values were seen", seen[0] && seen[1]);
	close(fd);
}

/* The quota is 4 MiB. */
void test_quota(struct iopm_context *context)
{
	int bar = context->cmd_fd, fd, other;
	uint64_t *at;

	expect_true("more", raw_try_alloc(bar, (4 << 20) + 1, 0) < 0 && errno == EDQUOT);
	fd = raw_alloc(bar, 3 << 20, 0);
	expect_true("more in all", raw_try_alloc(bar, (1 << 20) + 1, 0) < 0 && errno == EDQUOT);
	other = raw_alloc(bar, 1 << 20, 0);
	expect_true("full", mmap(NULL, PAGE, RW, MAP_SHARED, bar, 0) == MAP_FAILED && errno == EDQUOT);
	close(fd);
	at = must_map(bar, 3 << 20, 0);
	expect_true("full", raw_try_alloc(bar, 1, 0) < 0 && errno == EDQUOT);
	munmap(at, 3 << 20);
	close(other);
	close(raw_alloc(bar, 4 << 20, 0));
}
