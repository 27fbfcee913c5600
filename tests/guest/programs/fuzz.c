// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [-s SEED] [-n CALLS] [-p PROCESSES] [-t THREADS] [-d RDMA-DEVICE].. [-mux] BAR BAR
 *
 * Threads of several processes that make every call of user space on the BARs' devices, with valid,
 * nearly valid and invalid arguments, while the devices may be unbound and bound. There is no model of
 * what a call must return. Checks: each errno is one of those of the call, a call that fails leaves its
 * argument, an MR lies in mappings that allow it, and no file stays open. The caller checks that all
 * memory is free at the end, and the log. The numbers follow from the seed, the order does not.
 *
 *  -m  let allocations fail (fault injection, for the tasks that ask for it)
 *  -u  devices may be removed, or the objects of the RDMA device limited: calls may fail for that alone
 *  -x  expect a wrong errno: the run must fail
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "number.h"
#include "pattern.h"

#define FILES_EACH 5

int export_device;
bool mistaken, unsteady;

static char **bars;
static int files[KINDS * FILES_EACH];
static bool hungry;
static uint64_t seed = 1, calls = 10000;
static int n_processes = 1, n_threads = 3, process;
static struct thread threads[THREADS];

#define IOCTL { EINVAL, EFAULT, ENOTTY, ENXIO, ENOENT, EEXIST, EACCES, EBADF, ENOMEM, EBUSY, ENODEV }
/* The last two are those of an RDMA device that is removed or limited. */
#define REG EINVAL, EFAULT, ENOMEM, EOPNOTSUPP, ENODEV, EACCES, EPERM, EREMOTEIO, EAGAIN, EIO

/*
 * How often each is called, the percentage of its calls that must succeed, since a call that always
 * fails tests little, and its errnos.
 */
static struct {
	const char *name;
	int weight, good, errnos[16];
} ops[OPS] = {
	[OP_RANGE] = { "RANGE", 40, 2, IOCTL },
	[OP_NEAREST] = { "NEAREST", 40, 1, IOCTL },
	[OP_ALLOC] = { "DM_ALLOC", 60, 10, IOCTL },
	[OP_CAPACITY] = { "DM_CAPACITY", 20, 20, IOCTL },
	[OP_INFO] = { "DM_INFO", 40, 10, IOCTL },
	[OP_FREE] = { "DM_FREE", 20, 2, IOCTL },
	[OP_EXPORT] = { "EXPORT", 30, 2, IOCTL },
	[OP_NAME] = { "NAME", 50, 2, IOCTL },
	[OP_UNNAME] = { "UNNAME", 20, 2, IOCTL },
	[OP_QUERY] = { "QUERY", 20, 2, IOCTL },
	[OP_NO_IOCTL] = { "wrong ioctls", 10, 0, IOCTL },
	[OP_OPEN] = { "open", 10, 10, { ENOENT, ENODEV, ENXIO } },
	[OP_MMAP] = { "mmap", 100, 10, { EINVAL, ENOMEM, ENODEV, EACCES, EEXIST, EOVERFLOW, EOPNOTSUPP,
					 EBADF, EPERM, EAGAIN, ENXIO } },
	[OP_MAPPING] = { "their changes", 40, 5, { EINVAL, ENOMEM, EACCES, EFAULT, EBADF, EIO, EBUSY, EAGAIN,
						   EPERM, EOPNOTSUPP, EHWPOISON, ENODEV, EREMOTEIO } },
	[OP_ACCESS] = { "accesses", 50, 5, { EFAULT, EIO, EREMOTEIO, EAGAIN, EPERM, ENOMEM, EOPNOTSUPP } },
	[OP_FORK] = { "fork", 2, 50, { ENOMEM, EAGAIN } },
	[OP_BUFFER] = { "dma-bufs", 40, 10, { EBUSY, ENODEV, ENOMEM } },
	[OP_REG_MR] = { "registrations", 80, 5, { REG, EBUSY } },
	[OP_REREG_MR] = { "re-registrations", 20, 1, { REG, ENOENT, EBUSY } },
	[OP_DEREG_MR] = { "deregistrations", 20, 1, { REG, ENOENT, EBUSY } },
};

static struct {
	uint64_t calls, good;
} *counts;

uint64_t below(struct thread *t, uint64_t n)
{
	return splitmix64(&t->random) % n;
}

bool one_in(struct thread *t, unsigned int n)
{
	return !below(t, n);
}

uint64_t edge(struct thread *t)
{
	static const uint64_t edges[] = { 0, 1, 2, 7, 8, PAGE, 2 << 20, 1ULL << 31, 1ULL << 32,
					  1ULL << 40, 1ULL << 47, 1ULL << 52, 1ULL << 63, ~0ULL };
	size_t length;

	switch (below(t, 6)) {
	case 0: return below(t, ~0ULL) >> below(t, 64);
	case 1: return (uintptr_t)some_range(t, &length) + (one_in(t, 2) ? 0 : below(t, PAGE));
	default: return PICK(t, edges) + below(t, 3) - 1;
	}
}

void bug(struct thread *t, const char *format, ...)
{
	va_list args;

	flockfile(stdout);
	printf("fuzz: BUG: process %d, thread %d, call %llu, %s: ", process, t->number,
	       (unsigned long long)t->call, ops[t->op].name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

int pick_file(struct thread *t, enum kind kind)
{
	return one_in(t, 12) ? PICK(t, files) : files[kind * FILES_EACH + below(t, FILES_EACH)];
}

void put_file(struct thread *t, enum kind kind, int fd)
{
	if (dup3(fd, files[kind * FILES_EACH + below(t, FILES_EACH)], O_CLOEXEC) < 0 && errno != EBUSY)
		bug(t, "dup3: %s", strerrorname_np(errno));
	close(fd);
}

int open_bar(struct thread *t)
{
	/* Access mode 3 is for ioctls alone. */
	int fd = open(bars[below(t, BARS)], (one_in(t, 4) ? below(t, 4) : O_RDWR) | O_CLOEXEC);

	if (fd < 0)
		return errno;
	put_file(t, BAR, fd);
	return 0;
}

static enum op choose_op(struct thread *t)
{
	enum op op = 0;
	int at = 0;

	for (int i = 0; i < OPS; i++)
		at += ops[i].weight;
	at = below(t, at);
	while ((at -= ops[op].weight) >= 0)
		op++;
	return op;
}

static bool allowed(const struct thread *t, int error)
{
	const int *list = ops[t->op].errnos;

	/* For the call, for a page of its argument, or for a socket of soft RoCE. */
	if (t->starved && (error == ENOMEM || error == EFAULT || (error == ENFILE && t->op >= OP_REG_MR)))
		return true;
	if ((error == EAGAIN || error == EIO) && t->op == OP_REG_MR && !unsteady)
		return false;
	if (mistaken && error == EINVAL && t->op <= OP_NO_IOCTL)
		return false;
	while (*list && *list != error)
		list++;
	/* A small kernel lacks system calls, but not our ioctls. */
	return *list || (error == ENOSYS && t->op >= OP_OPEN);
}

void called(struct thread *t, int error)
{
	__atomic_add_fetch(&counts[t->op].calls, 1, __ATOMIC_RELAXED);
	if (!error)
		__atomic_add_fetch(&counts[t->op].good, 1, __ATOMIC_RELAXED);
	else if (!allowed(t, error))
		bug(t, "%s is no errno of %s", strerrorname_np(error), ops[t->op].name);
}

/* Prints a line per call. Returns false if one succeeded too rarely. */
static bool print_results(void)
{
	bool enough = true;

	for (enum op op = 0; op < OPS; op++) {
		uint64_t sum = counts[op].calls, good = counts[op].good;

		if (!sum)
			continue;
		printf("%-16s %7llu, %3llu%% ok\n", ops[op].name, (unsigned long long)sum,
		       (unsigned long long)(100 * good / sum));
		/* A few calls prove little: of 50 one, of 200 the percentage. */
		if (ops[op].good && (sum < 200 ? sum >= 50 && !good : 100 * good < ops[op].good * sum)) {
			printf("less than %d%% of these succeeded\n", ops[op].good);
			enough = false;
		}
	}
	return enough;
}

void starve(struct thread *t, bool on)
{
	if (!hungry || t->starved == on)
		return;
	/* Before the write that turns it on. */
	t->starved = on;
	if (pwrite(t->hunger, on ? "1" : "0", 1, 0) != 1)
		bug(t, "fault injection: %s", strerrorname_np(errno));
}

static void call(struct thread *t)
{
	t->op = choose_op(t);
	if (t->op >= OP_BUFFER && !rdma_has(t->op))
		t->op = OP_INFO;
	/* Calls of the modules' functions, not those of tests that any call needs. */
	if (t->op <= OP_NO_IOCTL || t->op == OP_MMAP || t->op >= OP_REG_MR)
		starve(t, one_in(t, 2));
	if (t->op <= OP_NO_IOCTL)
		fuzz_ioctl(t);
	else
		called(t, t->op < OP_BUFFER ? fuzz_memory(t) : fuzz_rdma(t));
	starve(t, false);
}

static void *run(void *arg)
{
	struct thread *t = arg;

	if (hungry)
		t->hunger = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	if (hungry && t->hunger < 0)
		bug(t, "no fault injection: %s", strerrorname_np(errno));
	/* Rounded up: at least @calls in all. */
	for (; t->call * n_threads * n_processes < calls; t->call++)
		call(t);
	if (hungry)
		close(t->hunger);
	return NULL;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A process: its threads, from the beginning to the end. */
static void work(char **rdma)
{
	pthread_t ids[THREADS];
	int before;

	while (*rdma)
		rdma_add(*rdma++);
	export_device = open("/dev/ib_peer_mem", O_RDWR | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		files[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < n_threads; i++) {
		struct thread *t = &threads[i];
		uint64_t mix = seed + process * THREADS + i;

		t->number = i;
		t->random = splitmix64(&mix);
		arena_map(t);
	}
	before = open_files();
	printf("fuzz: running\n");
	for (int i = 0; i < n_threads; i++)
		if ((errno = pthread_create(&ids[i], NULL, run, &threads[i])))
			err(1, "pthread_create");
	for (int i = 0; i < n_threads; i++)
		pthread_join(ids[i], NULL);
	if (open_files() != before)
		errx(1, "%d files are open in the end, %d were before", open_files(), before);
}

int main(int argc, char **argv)
{
	char *rdma[9] = { NULL };
	int n_rdma = 0, status, c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt(argc, argv, "s:n:p:t:d:mrux")) != -1) {
		switch (c) {
		case 's': seed = must_number(optarg); break;
		case 'n': calls = must_number(optarg); break;
		case 'p': n_processes = must_number(optarg); break;
		case 't': n_threads = must_number(optarg); break;
		case 'd': rdma[n_rdma++ % 8] = optarg; break;
		case 'm': hungry = true; break;
		/* ib_uverbs of 7.0 reads the keys of an MR that another thread may have deregistered. */
		case 'r': ops[OP_REREG_MR].weight = 0; break;
		case 'u': unsteady = true; break;
		case 'x': mistaken = true; break;
		default: errx(2, "no such option");
		}
	}
	if (optind + BARS != argc || n_processes < 1 || n_threads < 1 || n_threads > THREADS)
		errx(2, "usage: fuzz [OPTION].. BAR BAR");
	bars = argv + optind;
	counts = mmap(NULL, sizeof(*counts) * OPS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		err(1, "mmap of the counts");
	/* The parent is one of the processes. The others end with it. */
	for (process = n_processes - 1; process > 0; process--)
		if (!fork())
			break;
	if (process)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	work(rdma);
	if (process)
		return 0;
	while (wait(&status) > 0)
		if (status)
			errx(1, "a process ended with status %#x", status);
	if (!print_results() && !unsteady)
		return 1;
	printf("fuzz: %llu calls, seed %llu\n", (unsigned long long)calls, (unsigned long long)seed);
	return 0;
}
