// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Copies between host and device memory.
 *
 * Device memory is uncached and may be a register file: it is accessed in aligned
 * words, and each byte once. memcpy() may use vectors, overlapping or repeated
 * accesses, so it is not used on device memory.
 *
 * If the device is removed during a copy, an access raises SIGBUS and the copy returns
 * ENODEV. The handler passes every other SIGBUS to the handler that was installed
 * before the first allocation.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "dm.h"

typedef unsigned long word;

/* The copy that this thread executes. initial-exec: safe to read in a signal handler. */
static __thread struct {
	volatile sig_atomic_t running;
	const char *start, *end;
	sigjmp_buf back;
} copying __attribute__((tls_model("initial-exec")));

static struct sigaction before;

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;

	if (copying.running && info->si_code > 0 && at >= copying.start && at < copying.end)
		siglongjmp(copying.back, 1);
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(signal, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(signal);
	} else if (before.sa_handler == SIG_DFL || info->si_code > 0) {
		/* A fault cannot be ignored: the kernel kills the process as well. */
		struct sigaction dfl = { .sa_handler = SIG_DFL };

		sigaction(signal, &dfl, NULL);
		raise(signal);
	}
}

static void install(void)
{
	/* SA_NODEFER: siglongjmp() leaves the handler without unblocking the signal. */
	struct sigaction action = {
		.sa_sigaction = on_sigbus,
		.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK,
	};

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, NULL, &before);
	sigaction(SIGBUS, &action, NULL);
}

void copy_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

static size_t misalignment(const volatile void *p)
{
	return (uintptr_t)p % sizeof(word);
}

/* Not inlined: the jump loses their local variables, and those alone. */
static __attribute__((noinline)) void copy_to(volatile char *to, const char *from, size_t n)
{
	for (; n && misalignment(to); n--)
		*to++ = *from++;
	for (; n >= sizeof(word); n -= sizeof(word)) {
		word w;

		memcpy(&w, from, sizeof(w));	/* host memory, aligned or not */
		*(volatile word *)to = w;
		to += sizeof(word);
		from += sizeof(word);
	}
	for (; n; n--)
		*to++ = *from++;
}

static __attribute__((noinline)) void copy_from(char *to, const volatile char *from, size_t n)
{
	for (; n && misalignment(from); n--)
		*to++ = *from++;
	for (; n >= sizeof(word); n -= sizeof(word)) {
		word w = *(const volatile word *)from;

		memcpy(to, &w, sizeof(w));
		to += sizeof(word);
		from += sizeof(word);
	}
	for (; n; n--)
		*to++ = *from++;
}

/* Returns the errno of an invalid copy, or 0. */
static int check(const struct dm *dm, uint64_t offset, size_t length)
{
	if (!dm_has(dm, offset, length))
		return EINVAL;
	return dm->addr ? 0 : ENOMEM;
}

static void begin(const struct dm *dm)
{
	copying.start = dm->addr;
	copying.end = dm->addr + dm->size;
	copying.running = 1;
}

/* Copies from @from to the device, or from the device to @to; the other one is NULL. */
static int copy(const struct dm *dm, uint64_t offset, size_t length, char *to, const char *from)
{
	int error = check(dm, offset, length);

	if (error)
		return error;
	if (sigsetjmp(copying.back, 0)) {
		copying.running = 0;
		return ENODEV;
	}
	begin(dm);
	if (from)
		copy_to(dm->addr + offset, from, length);
	else
		copy_from(to, dm->addr + offset, length);
	copying.running = 0;
	return 0;
}

int iopm_memcpy_to_dm(struct iopm_dm *base, uint64_t dm_offset, const void *host_addr,
		      size_t length)
{
	return copy(to_dm(base), dm_offset, length, NULL, host_addr);
}

int iopm_memcpy_from_dm(void *host_addr, struct iopm_dm *base, uint64_t dm_offset,
			size_t length)
{
	return copy(to_dm(base), dm_offset, length, host_addr, NULL);
}
