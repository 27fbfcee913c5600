// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [-s SEED] [-n CALLS] [-t THREADS] [-d RDMA-DEVICE] [-c] [-x] BAR BAR
 *
 * Threads that make every call of user space on the BARs' devices, with valid,
 * nearly valid and invalid arguments, while the devices may be unbound and bound.
 * Checks: each errno is one that the documentation lists for the call, no two threads
 * get the same memory, and all memory is free at the end. The seed alone determines
 * the calls of each thread.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "fuzz.h"
#include "number.h"
#include "pattern.h"
#include "verbs.h"

#define THREADS 16

struct bar bars[BARS];
int shared[SHARED_FILES];
struct ibv_pd *pd;
int export_device = -1;
int own_memory;
bool compat, mistaken;

static uint64_t seed = 1, calls = 10000;
static int n_threads = 3;
static struct thread *threads;

/*
 * The weight of each call, and the percentage of its calls that must succeed: a call
 * that always fails tests little.
 */
static const struct {
	const char *name;
	int weight, good;
} ops[OPS] = {
	[OP_RANGE] = { "RANGE", 200, 5 },
	[OP_NEAREST] = { "NEAREST", 40, 10 },
	[OP_ALLOC] = { "DM_ALLOC", 80, 10 },
	[OP_CAPACITY] = { "DM_CAPACITY", 20, 20 },
	[OP_INFO] = { "DM_INFO", 220, 10 },
	[OP_FREE] = { "DM_FREE", 60, 5 },
	[OP_EXPORT] = { "EXPORT", 20, 5 },
	[OP_NO_IOCTL] = { "wrong ioctls", 220, 0 },
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
	[OP_FORK] = { "fork", 1, 0 },
	[OP_REG_MR] = { "ibv_reg_mr", 4, 1 },
};

/* --- random numbers --- */

uint64_t any(struct thread *t)
{
	return splitmix64(&t->random);
}

uint64_t below(struct thread *t, uint64_t n)
{
	return any(t) % n;
}

bool one_in(struct thread *t, unsigned int n)
{
	return !below(t, n);
}

uint64_t edge(struct thread *t)
{
	static const uint64_t edges[] = { 0, 1, 2, 7, 8, PAGE, 2 << 20, 1ULL << 31, 1ULL << 32,
					  1ULL << 40, 1ULL << 47, 1ULL << 52, 1ULL << 63, ~0ULL };
	size_t n = sizeof(edges) / sizeof(edges[0]);
	uint64_t i = below(t, n + 3);

	if (i == n)
		return any(t) >> below(t, 64);
	if (i == n + 1)
		return bars[0].size - 1 + below(t, 3);
	if (i == n + 2)
		return (uintptr_t)arena_any(t);
	return edges[i] - (one_in(t, 4) ? 1 : 0) + (one_in(t, 4) ? 1 : 0);
}

/* --- results --- */

static const char *name_of(int error)
{
	return error ? strerrorname_np(error) : "ok";
}

void bug(struct thread *t, const char *format, ...)
{
	va_list args;

	flockfile(stdout);
	printf("fuzz: BUG: seed %llu, thread %d of %d, call %llu, %s: ", (unsigned long long)seed,
	       t->number, n_threads, (unsigned long long)t->iteration, ops[t->op].name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
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
	/* A small kernel lacks system calls, but not our ioctls. */
	if (!*allowed && (error != ENOSYS || op < OP_FILE))
		bug(t, "%s is no errno of %s", name_of(error), ops[op].name);
	t->count[op].errnos[error]++;
}

static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t touching;

static void on_fault(int number)
{
	if (touching)
		siglongjmp(back, 1);
	signal(number, SIG_DFL);
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

bool touch(volatile char *at, bool write)
{
	if (sigsetjmp(back, 0)) {
		touching = 0;
		return false;
	}
	touching = 1;
	if (write)
		*at = 1;
	else
		(void)*at;
	touching = 0;
	return true;
}

/* --- the run --- */

static enum op choose(struct thread *t, int sum)
{
	int at = below(t, sum);
	enum op op = 0;

	while ((at -= ops[op].weight) >= 0)
		op++;
	return op;
}

/* Rounded up: at least @calls in all. */
static uint64_t calls_each(void)
{
	return (calls + n_threads - 1) / n_threads;
}

static void *run(void *arg)
{
	struct thread *t = arg;
	int sum = 0;

	for (enum op op = 0; op < OPS; op++)
		sum += ops[op].weight;
	for (; t->iteration < calls_each(); t->iteration++) {
		t->op = choose(t, sum);
		if (t->op == OP_EXPORT && export_device < 0)
			t->op = OP_INFO;
		if (t->op <= OP_NO_IOCTL)
			fuzz_ioctl(t, t->op);
		else if (t->op <= OP_PASS)
			fuzz_file(t, t->op);
		else
			fuzz_map(t, t->op);
	}
	mrs_free(t);
	for (struct file *f = t->files; f < t->files + PRIVATE_FILES; f++)
		file_close(f);
	arena_unmap(t);
	return NULL;
}

static int open_in_time(const char *path)
{
	int fd;

	/* The device may be unbound just now. */
	for (int i = 0; (fd = open(path, O_RDWR | O_CLOEXEC)) < 0 && i < 300; i++)
		usleep(100000);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void examine(struct bar *bar, const char *path)
{
	unsigned int domain, bus, device, function;
	int fd = open_in_time(path), error;
	uint64_t free;

	bar->path = path;
	if (sscanf(path, "/dev/io_peer_mem/%x:%x:%x.%x/", &domain, &bus, &device, &function) != 4)
		errx(2, "not the name of a BAR: %s", path);
	bar->domain = domain;
	bar->address = bus << 8 | device << 3 | function;
	error = ask_capacity(fd, &bar->size, &free);
	if (error)
		errx(1, "%s: %s", path, name_of(error));
	if (free != bar->size)
		errx(1, "%s: has other users", path);
	close(fd);
}

/* Waits: work that is deferred to the end of a system call may still free memory. */
static void all_is_free(const struct bar *bar)
{
	int fd = open_in_time(bar->path), error;
	uint64_t size, free;

	for (int i = 0; i < 100; i++) {
		error = ask_capacity(fd, &size, &free);
		if (error == ENODEV) {
			close(fd);
			fd = open_in_time(bar->path);
		} else if (error) {
			errx(1, "%s: %s", bar->path, name_of(error));
		} else if (free == size) {
			close(fd);
			return;
		}
		usleep(100000);
	}
	errx(1, "%s: only %llu of %llu bytes are free in the end", bar->path,
	     (unsigned long long)free, (unsigned long long)size);
}

/* Prints a line per call. Returns false if one succeeded too rarely. */
static bool print_results(void)
{
	bool enough = true;

	for (enum op op = 0; op < OPS; op++) {
		uint64_t sum = 0, good = 0;

		for (int i = 0; i < n_threads; i++) {
			sum += threads[i].count[op].calls;
			good += threads[i].count[op].good;
		}
		if (!sum)
			continue;
		printf("%-16s %7llu, %3llu%% ok", ops[op].name, (unsigned long long)sum,
		       (unsigned long long)(100 * good / sum));
		for (int error = 1; error < 160; error++) {
			uint64_t n = 0;

			for (int i = 0; i < n_threads; i++)
				n += threads[i].count[op].errnos[error];
			if (n)
				printf(", %s %llu", name_of(error), (unsigned long long)n);
		}
		printf("\n");
		/* A few calls prove nothing. */
		if (sum >= 500 && 100 * good < ops[op].good * sum) {
			printf("less than %d%% of these succeeded\n", ops[op].good);
			enough = false;
		}
	}
	return enough;
}

static void __attribute__((noreturn)) usage(void)
{
	errx(2, "usage: fuzz [-s SEED] [-n CALLS] [-t THREADS] [-d RDMA-DEVICE] [-c] [-x] BAR BAR\n"
	     "  -c  use 32-bit system calls as well\n"
	     "  -x  expect a wrong errno: the run must fail");
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	struct rdma rdma = { 0 };
	time_t start = time(NULL);
	int files, c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt(argc, argv, "s:n:t:d:cx")) != -1) {
		switch (c) {
		case 's': seed = must_number(optarg); break;
		case 'n': calls = must_number(optarg); break;
		case 't': n_threads = must_number(optarg); break;
		case 'd': device = optarg; break;
		case 'c': compat = true; break;
		case 'x': mistaken = true; break;
		default: usage();
		}
	}
	if (optind + BARS != argc || n_threads < 1 || n_threads > THREADS)
		usage();
	for (int i = 0; i < BARS; i++)
		examine(&bars[i], argv[optind + i]);
	if (bars[0].size != bars[1].size)
		errx(2, "the BARs have to be of one size");
	if (device) {
		rdma = rdma_open(device);
		pd = rdma.pd;
	}
	export_device = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < SHARED_FILES; i++)
		shared[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	own_memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	catch_faults();
	files = open_files();

	printf("fuzz: seed %llu, %llu calls, %d threads\n", (unsigned long long)seed,
	       (unsigned long long)calls, n_threads);
	threads = calloc(n_threads, sizeof(*threads));
	for (int i = 0; i < n_threads; i++) {
		struct thread *t = &threads[i];
		uint64_t mix = seed + i;

		t->number = i;
		t->random = splitmix64(&mix);
		args_map(t);
		arena_map(t);
	}
	for (int i = 0; i < n_threads; i++)
		if ((errno = pthread_create(&threads[i].id, NULL, run, &threads[i])))
			err(1, "pthread_create");
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i].id, NULL);

	c = open_files();
	if (c != files)
		errx(1, "%d files are open in the end, %d were before", c, files);
	for (int i = 0; i < SHARED_FILES; i++)
		close(shared[i]);
	if (device)
		rdma_close(&rdma);
	for (int i = 0; i < BARS; i++)
		all_is_free(&bars[i]);
	if (!print_results())
		return 1;
	printf("fuzz: %llu calls, seed %llu, %d threads, %ld s\n",
	       (unsigned long long)(calls_each() * n_threads), (unsigned long long)seed,
	       n_threads, (long)(time(NULL) - start));
	return 0;
}
