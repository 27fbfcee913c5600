// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [-s SEED] [-n CALLS] [-t THREADS] [-d RDMA-DEVICE] [-a ADAPTER:MODE].. [-o COUNTS]
 *      [-bclmux] BAR BAR
 * fuzz -r COUNTS...
 *
 * Threads that make every call of user space on the BARs' devices, with valid,
 * nearly valid and invalid arguments, while the devices may be unbound and bound.
 * Checks: each errno is one that the documentation lists for the call, no two threads
 * get the same memory, and all memory is free at the end. The seed alone determines
 * the calls of each thread. The counts of all calls are in the file COUNTS at any time,
 * also after the process has been killed; -r adds up such files.
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
struct rdma *rdma;
struct ibv_pd *pd, *mr_pd;
bool pd_imports;
struct adapter adapters[ADAPTERS];
int n_adapters;
int export_device = -1;
int own_memory;
bool compat, mistaken, hungry, unsteady, lively;

static uint64_t seed = 1, calls = 10000;
static int n_threads = 3;
static struct thread *threads;

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

struct thread *any_thread(struct thread *t)
{
	return &threads[below(t, n_threads)];
}

void bug(struct thread *t, const char *format, ...)
{
	va_list args;

	flockfile(stdout);
	printf("fuzz: BUG: seed %llu, thread %d of %d, call %llu, %s: ", (unsigned long long)seed,
	       t->number, n_threads, (unsigned long long)t->iteration, name_of(t->op));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
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

bool copy_guarded(volatile char *to, const volatile char *from, size_t n)
{
	if (sigsetjmp(back, 0)) {
		touching = 0;
		return false;
	}
	touching = 1;
	for (size_t i = 0; i < n; i++)
		to[i] = from[i];
	touching = 0;
	return true;
}

/* --- the run --- */

static enum op choose(struct thread *t, int sum)
{
	int at = below(t, sum);
	enum op op = 0;

	while ((at -= weight(op)) >= 0)
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

	rdma_begin(t);
	for (enum op op = 0; op < OPS; op++)
		sum += weight(op);
	for (; t->iteration < calls_each(); t->iteration++) {
		t->op = choose(t, sum);
		if (t->op >= OP_EXPORT && t->op <= OP_QUERY && export_device < 0)
			t->op = OP_INFO;
		if (t->op >= OP_BUFFER && !t->field)
			t->op = OP_INFO;
		/* Calls of the modules' functions, not those of tests that any call needs. */
		if (t->op <= OP_NO_IOCTL || t->op == OP_MMAP ||
		    (t->op >= OP_REG_MR && t->op <= OP_TRANSFER))
			starve(t, one_in(t, 2));
		if (t->op <= OP_NO_IOCTL)
			fuzz_ioctl(t, t->op);
		else if (t->op <= OP_PASS)
			fuzz_file(t, t->op);
		else if (t->op < OP_REG_MR)
			fuzz_map(t, t->op);
		else if (t->op < OP_BUFFER)
			fuzz_rdma(t, t->op);
		else
			fuzz_field(t, t->op);
		starve(t, false);
	}
	if (t->field)
		field_unmap(t);
	mrs_free(t);
	if (t->hunger >= 0)
		close(t->hunger);
	for (struct file *f = t->files; f < t->files + PRIVATE_FILES; f++)
		file_close(f);
	arena_unmap(t);
	return NULL;
}

/* @text: ADAPTER:MODE. */
static void open_adapter(char *text)
{
	struct adapter *a = &adapters[n_adapters++];
	char *mode = strchr(text, ':');

	if (n_adapters > ADAPTERS || !mode)
		errx(2, "not an adapter, or one too many: %s", text);
	*mode++ = '\0';
	*a = (struct adapter) { .name = text, .rdma = rdma_open(text),
				.pins = strcmp(mode, "dynamic") };
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
	/* A child of a user that was killed may still end, and free its memory. */
	for (int i = 0; i < 300; i++) {
		error = ask_capacity(fd, &bar->size, &free);
		if (error || free == bar->size)
			break;
		usleep(100000);
	}
	if (error)
		errx(1, "%s: %s", path, strerrorname_np(error));
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
			errx(1, "%s: %s", bar->path, strerrorname_np(error));
		} else if (free == size) {
			close(fd);
			return;
		}
		usleep(100000);
	}
	errx(1, "%s: only %llu of %llu bytes are free in the end", bar->path,
	     (unsigned long long)free, (unsigned long long)size);
}

static void __attribute__((noreturn)) usage(void)
{
	errx(2, "usage: fuzz [-s SEED] [-n CALLS] [-t THREADS] [-d RDMA-DEVICE] [-a ADAPTER:MODE]..\n"
	     "            [-o COUNTS] [-bclmux] BAR BAR\n"
	     "       fuzz -r COUNTS...\n"
	     "  -a  use this test adapter, and dma-bufs of the test exporter; MODE: dynamic,\n"
	     "      revocable or pinned\n"
	     "  -b  the devices of the BARs are unbound and bound: how long each is away depends on\n"
	     "      the speed of the machine, so calls that end with ENODEV are no failed calls\n"
	     "  -c  use 32-bit system calls as well\n"
	     "  -l  rather map, register, transfer and fork than make wrong calls\n"
	     "  -m  let allocations fail (fault injection, for the tasks that ask for it)\n"
	     "  -u  the RDMA device may be removed, or its objects limited\n"
	     "  -x  expect a wrong errno: the run must fail");
}

int main(int argc, char **argv)
{
	const char *device = NULL, *counts_path = NULL;
	bool devices_leave = false;
	struct rdma opened, again;
	struct count sum[OPS] = { 0 }, *counts;
	time_t start = time(NULL);
	int files, c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt(argc, argv, "a:s:n:t:d:o:bclmurx")) != -1) {
		switch (c) {
		case 'a': open_adapter(optarg); break;
		case 's': seed = must_number(optarg); break;
		case 'n': calls = must_number(optarg); break;
		case 't': n_threads = must_number(optarg); break;
		case 'd': device = optarg; break;
		case 'o': counts_path = optarg; break;
		case 'b': devices_leave = true; break;
		case 'c': compat = true; break;
		case 'l': lively = true; break;
		case 'm': hungry = true; break;
		case 'u': unsteady = true; break;
		case 'r': return report(argv + optind);
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
		opened = rdma_open(device);
		rdma = &opened;
		pd = rdma->pd;
		pd_imports = strncmp(device, "rxe", 3);
		again = rdma_open(device);
		mr_pd = again.pd;
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
	counts = map_counts(counts_path, n_threads);
	for (int i = 0; i < n_threads; i++) {
		struct thread *t = &threads[i];
		uint64_t mix = seed + i;

		t->number = i;
		t->random = splitmix64(&mix);
		t->count = counts + i * OPS;
		args_map(t);
		arena_map(t);
		if (n_adapters)
			field_map(t);
		t->paired = pd;
		if (t->paired)
			t->pair = pair_make(rdma);
	}
	printf("fuzz: running\n");
	for (int i = 0; i < n_threads; i++)
		if ((errno = pthread_create(&threads[i].id, NULL, run, &threads[i])))
			err(1, "pthread_create");
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i].id, NULL);
	unname_all();
	/* Of a device that may be gone the end of the process frees everything. */
	for (int i = 0; i < n_threads && !unsteady; i++)
		if (threads[i].paired)
			pair_free(&threads[i].pair);

	c = open_files();
	if (c != files)
		errx(1, "%d files are open in the end, %d were before", c, files);
	for (int i = 0; i < SHARED_FILES; i++)
		close(shared[i]);
	if (device && !unsteady) {
		rdma_close(rdma);
		rdma_close(&again);
	}
	for (int i = 0; i < n_adapters && !unsteady; i++)
		rdma_close(&adapters[i].rdma);
	for (int i = 0; i < BARS; i++)
		all_is_free(&bars[i]);
	add_counts(sum, counts, n_threads);
	/* Without a device all calls on it fail. */
	if (!print_results(sum, devices_leave) && !unsteady)
		return 1;
	printf("fuzz: %llu calls, seed %llu, %d threads, %ld s\n",
	       (unsigned long long)(calls_each() * n_threads), (unsigned long long)seed,
	       n_threads, (long)(time(NULL) - start));
	return 0;
}
