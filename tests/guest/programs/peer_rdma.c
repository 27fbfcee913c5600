// SPDX-License-Identifier: GPL-2.0
/*
 * peer_rdma - RDMA to device memory, for the guest suites: the actions of samples/verbs, and
 * registrations that fail, MRs that a process holds, writers whose memory is revoked
 */
#include <err.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/userfaultfd.h>

#include "actions.h"
#include "number.h"
#include "pattern.h"

#define CHUNK 4096

static struct {
	bool read_only;		/* -R: map without PROT_WRITE */
	bool unserved;		/* -U, reg: the second half of the mapping is memory that is never served */
	bool no_map;		/* -M: register an address without a mapping */
	bool is_private;	/* -P, reg: map with MAP_PRIVATE */
	bool join;		/* -J, reg: map the second MEMORY behind the first */
	bool unmap;		/* -u, forever: unmap the memory after the registration */
	char *at;		/* -@ ADDRESS, reg: the address with -M, else the offset in the file */
	bool read;		/* -g, forever: RDMA READ until the memory is revoked */
	int access;		/* -a FLAGS, reg: l(ocal write) w(rite) r(ead) a(tomic) */
	int seconds;		/* -t SECONDS: hold, forever */
} test = { .access = ACCESS_ALL };

/* Maps memory whose page faults wait for this process, which never answers. */
static void map_unserved(char *addr, size_t length)
{
	struct uffdio_register missing = {
		.range = { .start = (uintptr_t)addr, .len = length },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    mmap(addr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &missing))
		err(1, "userfaultfd");
}

/* Maps -m bytes of the file from @offset on, or of host memory, at @addr unless that is NULL. */
static char *map(struct options *o, const char *memory, char *addr, off_t offset)
{
	bool host = !strcmp(memory, "host");
	int flags = host ? MAP_PRIVATE | MAP_ANONYMOUS : test.is_private ? MAP_PRIVATE : MAP_SHARED;
	int fd = host ? -1 : open(memory, O_RDWR | O_CLOEXEC);

	addr = mmap(addr, o->map_length, PROT_READ | PROT_WRITE, flags | (addr ? MAP_FIXED : 0), fd, offset);
	if (addr == MAP_FAILED)
		err(1, "%s", memory);
	return addr;
}

/* Maps the second MEMORY right behind the first. */
static char *map_joined(struct options *o)
{
	char *addr = mmap(NULL, 2 * o->map_length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		err(1, "mmap");
	map(o, o->memory2, addr + o->map_length, 0);
	return map(o, o->memory, addr, 0);
}

static void print_result(struct ibv_mr *mr, const char *whose)
{
	printf("registration%s: %s\n", whose, mr ? "ok" : strerrorname_np(errno));
	if (mr)
		rdma_deregister(mr);
}

static char *reg_addr;

static void *register_all(void *arg)
{
	struct options *o = arg;
	struct ibv_mr *mr = NULL;

	for (int i = 0; i < o->count; i++) {
		if (mr)
			rdma_deregister(mr);
		mr = ibv_reg_mr(o->rdma.pd, reg_addr + o->offset, o->length, test.access);
	}
	print_result(mr, "");
	return NULL;
}

/*
 * -n registrations, by another thread than the first. Prints ok, or the name of the errno, of the
 * last one.
 */
static int do_reg(struct options *o)
{
	pthread_t thread;

	if (test.no_map)
		reg_addr = test.at;
	else if (test.join)
		reg_addr = map_joined(o);
	else if (test.at || test.is_private)
		reg_addr = map(o, o->memory, NULL, (uintptr_t)test.at);
	else
		reg_addr = buffer_map(o->memory, o->map_length, PROT_READ | (test.read_only ? 0 : PROT_WRITE)).addr;
	if (test.unserved)
		map_unserved(reg_addr + o->map_length / 2, o->map_length / 2);
	if ((errno = pthread_create(&thread, NULL, register_all, o)) || (errno = pthread_join(thread, NULL)))
		err(1, "a thread");
	return 0;
}

/* Registers -n MRs, one mapping each, and sleeps. */
static int do_hold(struct options *o)
{
	for (int i = 0; i < o->count; i++) {
		struct buffer b = buffer_map(o->memory, o->map_length, PROT_READ | PROT_WRITE);

		rdma_register(&o->rdma, b.addr + o->offset, o->length);
	}
	printf("holding %d\n", o->count);
	sleep(test.seconds ? test.seconds : 3600);
	/* The MRs are released with the process. */
	exit(0);
}

static void wait_for_line(void)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		errx(1, "end of input");
}

/*
 * Registers the same -m bytes up to -n times, until it fails, and sleeps. The heap is mapped
 * before, so that only registrations need memory.
 */
static int do_many(struct options *o)
{
	size_t heap = 4 << 20;
	char *addr = map(o, o->memory, NULL, 0);
	int n = 0;

	mallopt(M_MMAP_THRESHOLD, heap * 2);
	mallopt(M_TRIM_THRESHOLD, heap * 2);
	free(memset(malloc(heap), 1, heap));
	printf("begin\n");
	wait_for_line();
	while (n < o->count && ibv_reg_mr(o->rdma.pd, addr + o->offset, o->length, test.access))
		n++;
	printf("registered %d: %s\n", n, n < o->count ? strerrorname_np(errno) : "ok");
	wait_for_line();
	exit(0);
}

static volatile sig_atomic_t stop;

static void on_sigterm(int signal)
{
	(void)signal;
	stop = 1;
}

static const char *name_of(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_READ ? "read" : "write";
}

/* Is access denied, and does no byte come? Those of the other end would be seen in the pattern. */
static bool is_denied(struct pair *p, enum ibv_wr_opcode op, struct ibv_mr *local, uint32_t rkey,
		      uint64_t addr, uint64_t seed)
{
	char *want = malloc(CHUNK);
	enum ibv_wc_status status;
	bool same;

	if (!want)
		err(1, "malloc");
	pattern_fill(want, CHUNK, seed);
	memcpy(local->addr, want, CHUNK);
	status = pair_rw_key(p, op, local, local->addr, rkey, addr, CHUNK);
	same = !memcmp(local->addr, want, CHUNK);
	free(want);
	if (status != IBV_WC_REM_ACCESS_ERR)
		printf("a later %s: %s\n", name_of(op), ibv_wc_status_str(status));
	else if (!same)
		printf("a later %s: bytes came\n", name_of(op));
	return status == IBV_WC_REM_ACCESS_ERR && same;
}

/* Is access still denied, with new queue pairs, for -t seconds or until SIGTERM? */
static int stays_revoked(struct options *o, struct ibv_mr *local, struct ibv_mr *mr)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE };
	time_t end = time(NULL) + test.seconds;
	int tries = 0;

	do {
		for (int i = 0; i < 2; i++) {
			struct pair p = pair_make(&o->rdma);
			bool denied = is_denied(&p, ops[i], local, mr->rkey, (uintptr_t)mr->addr,
						tries);

			pair_free(&p);
			if (!denied)
				return 1;
		}
		tries++;
		printf("denied\n");
		usleep(20000);
	} while (!stop && time(NULL) < end);
	printf("still revoked after %d more reads and writes\n", tries);
	return 0;
}

/* RDMA of CHUNK bytes until one fails: returns the status of number @count. */
static enum ibv_wc_status use_until_it_fails(struct pair *p, enum ibv_wr_opcode op,
					     struct ibv_mr *from, uint32_t rkey, uint64_t addr,
					     size_t length, uint64_t *count)
{
	enum ibv_wc_status status;

	*count = 0;
	do {
		/* Every word is the counter: any write after the last one shows. */
		++*count;
		for (size_t i = 0; i < CHUNK; i += 8)
			memcpy((char *)from->addr + i, count, 8);
		status = pair_rw_key(p, op, from, from->addr, rkey,
				     addr + *count % (length / CHUNK) * CHUNK, CHUNK);
		if (*count == 1 && status == IBV_WC_SUCCESS)
			printf("running\n");
	} while (status == IBV_WC_SUCCESS);
	printf("%s %llu: %s\n", name_of(op), (unsigned long long)*count, ibv_wc_status_str(status));
	return status;
}

/*
 * Writes a growing counter, or reads, until that fails. The memory may be revoked at any time.
 * The application then sees a remote access error, never a hang, and can only
 * deregister the MR.
 */
static int do_forever(struct options *o)
{
	struct buffer from = host_memory(CHUNK);
	struct buffer peer = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, CHUNK);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);
	enum ibv_wc_status status;
	uint64_t count;
	int rc;

	if (o->length < CHUNK)
		errx(1, "the MR must have at least %d bytes", CHUNK);
	/* The MR keeps the memory allocated until it is revoked. */
	if (test.unmap)
		buffer_unmap(&peer);
	status = use_until_it_fails(&p, test.read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, from_mr,
				    mr->rkey, (uintptr_t)mr->addr, o->length, &count);
	pair_free(&p);

	signal(SIGTERM, on_sigterm);
	rc = status == IBV_WC_REM_ACCESS_ERR && count > 1 ? 0 : 1;
	if (!rc && test.seconds)
		rc = stays_revoked(o, from_mr, mr);
	rdma_deregister(mr);
	rdma_deregister(from_mr);
	printf("deregistered\n");
	return rc;
}

/*
 * As do_forever(), with the server's memory: after the revocation new queue pairs get
 * a remote access error as well.
 */
static int do_stream(struct options *o)
{
	struct buffer from = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr + o->offset, o->length);
	struct remote r = remote_open(o);
	enum ibv_wc_status status;
	uint64_t count;

	if (o->length < CHUNK || r.length < CHUNK)
		errx(1, "the MRs must have at least %d bytes", CHUNK);
	status = use_until_it_fails(&r.pair, IBV_WR_RDMA_WRITE, from_mr, r.rkey, r.addr, r.length,
				    &count);
	remote_close(&r);
	if (status != IBV_WC_REM_ACCESS_ERR || count == 1)
		return 1;

	for (int i = 0; i < o->count; i++) {
		bool denied;

		r = remote_open(o);
		denied = is_denied(&r.pair, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, from_mr,
				   r.rkey, r.addr, i);
		remote_close(&r);
		if (!denied)
			return 1;
	}
	printf("still revoked after %d more reads and writes\n", o->count);
	rdma_deregister(from_mr);
	return 0;
}

/*
 * Writes until the memory is revoked, deregisters, waits for SIGTERM, and then uses a new MR of
 * the same memory and PD, for which a driver may have the same key.
 */
static int do_again(struct options *o)
{
	struct buffer from = host_memory(CHUNK);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, CHUNK);
	uint32_t keys[2];

	if (o->length != CHUNK)
		errx(1, "the MR must have %d bytes", CHUNK);
	signal(SIGTERM, on_sigterm);
	for (int i = 0; i < 2; i++) {
		struct buffer peer = map_zeroed(o->memory, o);
		struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
		struct pair p = pair_make(&o->rdma);
		uint64_t count;

		keys[i] = mr->rkey;
		if (i) {
			pattern_fill(from.addr, CHUNK, o->seed);
			pair_must_rw(&p, IBV_WR_RDMA_WRITE, from_mr, from.addr, mr, mr->addr, CHUNK);
			report("wrote", &peer, o);
		} else if (use_until_it_fails(&p, IBV_WR_RDMA_WRITE, from_mr, mr->rkey,
					      (uintptr_t)mr->addr, o->length, &count) !=
			   IBV_WC_REM_ACCESS_ERR) {
			return 1;
		}
		pair_free(&p);
		rdma_deregister(mr);
		buffer_unmap(&peer);
		printf("deregistered\n");
		while (!stop)
			usleep(20000);
	}
	rdma_deregister(from_mr);
	printf("keys %#x %#x\n", keys[0], keys[1]);
	return 0;
}

/* The whole mapping is the MR, of which -l bytes at -o are written, and read back. */
static int do_span(struct options *o)
{
	struct buffer from = host_memory(o->length), back = host_memory(o->length);
	struct buffer peer = buffer_map(o->memory, o->map_length, PROT_READ | PROT_WRITE);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, o->length);
	struct ibv_mr *back_mr = rdma_register(&o->rdma, back.addr, o->length);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr, o->map_length);
	struct pair p = pair_make(&o->rdma);

	pattern_fill(from.addr, o->length, o->seed);
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, from_mr, from.addr, mr, peer.addr + o->offset, o->length);
	pair_must_rw(&p, IBV_WR_RDMA_READ, back_mr, back.addr, mr, peer.addr + o->offset, o->length);
	must_equal(back.addr, from.addr, o->length, "RDMA READ");
	printf("wrote offset=%#llx length=%zu seed=%llu guard=0\n",
	       (unsigned long long)buffer_bar_offset(&peer) + o->offset, o->length, (unsigned long long)o->seed);
	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(back_mr);
	rdma_deregister(from_mr);
	return 0;
}

/* Registers until no allocation fails: the first one, then the second one, and so on. */
static int do_starve(struct options *o)
{
	struct buffer peer = buffer_map(o->memory, o->map_length, PROT_READ | PROT_WRITE);
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC), n = 0;
	char left[16];

	do {
		struct ibv_mr *mr;

		if (dprintf(fd, "%d", ++n) < 0)
			err(1, "fail-nth");
		mr = ibv_reg_mr(o->rdma.pd, peer.addr + o->offset, o->length, test.access);
		memset(left, 0, sizeof(left));
		if (pread(fd, left, sizeof(left) - 1, 0) < 0 || pwrite(fd, "0", 1, 0) != 1)
			err(1, "fail-nth");
		if (mr)
			rdma_deregister(mr);
	} while (!atoi(left));
	if (n == 1)
		errx(1, "no allocation has failed");
	printf("%d allocations failed in turn\n", n - 1);
	return 0;
}

/* A child registers the mapping that it has of its parent. The parent then uses its own MR. */
static int do_fork(struct options *o)
{
	struct buffer from = host_memory(o->length);
	struct buffer peer = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr, o->length);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	struct pair p = pair_make(&o->rdma);
	const char *device = ibv_get_device_name(o->rdma.context->device);
	int status;
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		struct rdma rdma = rdma_open(device);

		print_result(ibv_reg_mr(rdma.pd, peer.addr + o->offset, o->length, test.access), " of the child");
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "the child has failed");
	pattern_fill(from.addr, o->length, o->seed);
	pair_must_rw(&p, IBV_WR_RDMA_WRITE, from_mr, from.addr, mr, mr->addr, o->length);
	must_equal(mr->addr, from.addr, o->length, "CPU read");
	printf("the parent writes\n");
	pair_free(&p);
	rdma_deregister(mr);
	rdma_deregister(from_mr);
	return 0;
}

static int access_flags(const char *text)
{
	static const char letters[] = "lwra";	/* as IBV_ACCESS_*, from bit 0 on */
	int flags = 0;

	for (; *text; text++) {
		const char *letter = strchr(letters, *text);

		if (!letter)
			errx(2, "no such access: %c", *text);
		flags |= 1 << (letter - letters);
	}
	return flags;
}

static void option(int letter, const char *argument)
{
	switch (letter) {
	case 't': test.seconds = must_number(argument); break;
	case '@': test.at = (void *)(uintptr_t)must_number(argument); break;
	case 'a': test.access = access_flags(argument); break;
	case 'u': test.unmap = true; break;
	case 'g': test.read = true; break;
	case 'R': test.read_only = true; break;
	case 'U': test.unserved = true; break;
	case 'P': test.is_private = true; break;
	case 'J': test.join = true; break;
	default: test.no_map = true;
	}
}

static const struct action actions[] = {
	SAMPLE_ACTIONS,
	{ "reg", do_reg, "-n registrations; prints ok, or the name of the errno, of the last", true },
	{ "hold", do_hold, "make -n MRs and sleep for -t seconds", false },
	{ "many", do_many, "register the same -m bytes up to -n times; waits for input", false },
	{ "forever", do_forever, "write until the memory is revoked, then try both for -t seconds", false },
	{ "stream", do_stream, "write to the server until that fails, then try -n times", false },
	{ "again", do_again, "write until the memory is revoked, then use a new MR of it", false },
	{ "starve", do_starve, "reg, with each allocation failing in turn", false },
	{ "fork", do_fork, "a child registers the memory of its parent, which then writes", false },
	{ "span", do_span, "an MR of the whole mapping; WRITE -l bytes at -o, READ back", false },
};

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "peer_rdma",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "t:@:a:ugRUMPJ",
		.option = option,
		.help = "  -t -@ -a -u -g -R -U -M -P -J: see peer_rdma.c\n",
	};

	return program_run(&program, argc, argv);
}
