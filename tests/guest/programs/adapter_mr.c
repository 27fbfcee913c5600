// SPDX-License-Identifier: GPL-2.0
/*
 * adapter_mr [-fi] [-k NAME] [-m BYTES] [-q QUEUE] [-s SHAPE] [-x INDEX] DEVICE MEMORY OFFSET LENGTH
 *            [ACCESS[,ACCESS..]]: one MR or queue, under the control of a script
 *
 * Registers memory and prints "mr lkey=.. rkey=.. addr=.. length=..", or prints "error ERRNO" and exits with 1.
 * Then reads commands, one per line, and answers each with a line, "ok .." or "error ERRNO". MEMORY is that of
 * memory_map(), EXPORTER that of exporter_make(), ACCESS a list of those below. Numbers may be hexadecimal. An access
 * to removed memory is "error SIGBUS".
 *
 *  -f        use up all file descriptors first
 *  -i        register by ioctl(2) instead of write(2)
 *  -k NAME   join a new session keyring first
 *  -m BYTES  length of the mapping (to the end of the MR, in whole pages)
 *  -q QUEUE  create a queue instead of an MR. The memory is the buffer of a CQ (cq, or named by attributes cq-va,
 *            cq-umem). The keys are that of this memory.
 *  -s SHAPE  of the mapping of a dma-buf (memory.h)
 *  -x INDEX  of the GID, for write, read and writer (0)
 *
 *  fill SEED            write a pattern to the range of the MR, by the CPU
 *  check SEED           compare; "error MISMATCH at=.." at the first difference
 *  rereg [start OFFSET LENGTH] [host OFFSET LENGTH] [access ACCESS] [pd]
 *                       change the range, the memory, the access, the PD
 *  dereg, reg [OFFSET LENGTH]
 *                       deregister; register again, the same range or another
 *  unmap                unmap the memory and close its file; the MR stays
 *  unmap, protect, remap OFFSET LENGTH; over MEMORY
 *                       memory_change() of a part; memory_map_over()
 *  fork, exec           fork a child, which ends; become sleep(1), with the MR, after the last answer
 *  reset, sleep         the function that vfio-pci has
 *  unname               remove the name of the memory
 *  write SEED, read SEED
 *                       write a pattern to the MR by RDMA, from host memory; compare
 *  writer, stop         write by RDMA until "stop", or until that fails, and compare; "ok status=.. writes=.."
 *  move, revoke, set NAME=NUMBER
 *                       the memory of the test exporter (exporter_set())
 *  map-chunk N, unmap-chunk N, free; churn TIMES
 *                       of the memory of a GPU; register the range while chunk 1 is mapped and unmapped
 *  state                of the dma-buf; late: bytes written to pages left by a move
 *  look SEED, sum       compare the memory as the exporter has it; a number for its contents
 *  quit                 end, as at the end of the input
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/keyctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "adapter_rdma.h"
#include "exporter.h"
#include "number.h"

static const struct {
	const char *name;
	int flags;
} accesses[] = {
	{ "local-write", IBV_ACCESS_LOCAL_WRITE },
	{ "remote-read", IBV_ACCESS_REMOTE_READ },
	{ "mw-bind", IBV_ACCESS_MW_BIND },
	{ "on-demand", IBV_ACCESS_ON_DEMAND },
	{ "relaxed", IBV_ACCESS_RELAXED_ORDERING },
	{ "all", ACCESS_ALL },
};

#define N_ACCESSES (sizeof(accesses) / sizeof(accesses[0]))

static void __attribute__((noreturn)) usage(void)
{
	errx(2, "usage: adapter_mr [OPTION].. DEVICE MEMORY OFFSET LENGTH [ACCESS]");
}

struct adapter it = { .access = ACCESS_ALL };

/* The words after a command, and those that are numbers. */
#define WORDS 10
static char *words[WORDS];
static uint64_t numbers[2];
static int n_words;

/* Modifies @text. Returns false for an unknown flag. */
static bool access_flags(char *text, int *flags)
{
	char *save, *word;

	*flags = 0;
	if (!text)
		return false;
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		size_t i = 0;

		while (i < N_ACCESSES && strcmp(accesses[i].name, word))
			i++;
		if (i == N_ACCESSES)
			return false;
		*flags |= accesses[i].flags;
	}
	return true;
}

void answer(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void answer_errno(void)
{
	const char *name = strerrorname_np(errno);

	answer("error %s", name ? name : "UNKNOWN");
}

static void answer_keys(const char *word)
{
	answer("%s lkey=%#x rkey=%#x addr=%#llx length=%zu", word, it.keys.lkey, it.keys.rkey,
	       (unsigned long long)(uintptr_t)its_addr(), it.length);
}

/* The driver of the device: soft RoCE, and the test adapter which says that it is that, or mlx5. */
static uint32_t driver(void)
{
	const char *name = ibv_get_device_name(it.rdma.context->device);

	return strncmp(name, "mlx5_", 5) ? RDMA_DRIVER_RXE : RDMA_DRIVER_MLX5;
}

/* Registers the dma-buf that is mapped, as an application does that has its descriptor. */
static int reg_dmabuf(int dmabuf, struct keys *keys)
{
	return uverbs_reg_dmabuf_mr(it.rdma.context, driver(), it.rdma.pd->handle, dmabuf,
				    it.memory.start + it.offset, it.length, (uintptr_t)its_addr(),
				    it.access, keys);
}

static int reg(void)
{
	char *addr = its_addr();

	if (it.kind) {
		if (queue_create(it.rdma.context, it.kind, addr, it.length, &it.queue))
			return -1;
		it.keys = (struct keys) { .lkey = it.queue.key, .rkey = it.queue.key };
	} else if (it.memory.dmabuf >= 0) {
		if (reg_dmabuf(it.memory.dmabuf, &it.keys))
			return -1;
	} else if (it.by_ioctl) {
		if (uverbs_reg_mr(it.rdma.context, driver(), it.rdma.pd->handle, (uintptr_t)addr,
				  it.length, it.access, &it.keys))
			return -1;
	} else {
		it.mr = reg_mr(it.rdma.pd, addr, it.length, it.access);
		if (!it.mr)
			return -1;
		it.keys = (struct keys) {
			.handle = it.mr->handle,
			.lkey = it.mr->lkey,
			.rkey = it.mr->rkey,
		};
	}
	it.registered = true;
	return 0;
}

static int dereg(void)
{
	int rc;

	if (!it.registered) {
		errno = ENOENT;
		return -1;
	}
	if (it.kind) {
		if (queue_destroy(it.rdma.context, &it.queue))
			return -1;
	} else if (it.mr) {
		rc = ibv_dereg_mr(it.mr);
		if (rc) {
			errno = rc;
			return -1;
		}
		it.mr = NULL;
	} else if (uverbs_dereg_mr(it.rdma.context, &it.keys)) {
		return -1;
	}
	it.registered = false;
	return 0;
}

static void rereg(void)
{
	struct memory memory = it.memory;
	size_t offset = it.offset, length = it.length;
	int flags = 0, access = it.access;
	struct ibv_pd *pd = it.rdma.pd, *other_pd = it.other_pd;
	uint64_t n[2];

	for (int i = 0; i < n_words; i++) {
		bool host = !strcmp(words[i], "host");

		if (host || !strcmp(words[i], "start")) {
			if (i + 2 >= n_words || !parse_number(words[i + 1], &n[0]) || !parse_number(words[i + 2], &n[1])) {
				answer("error SYNTAX");
				return;
			}
			i += 2;
			flags |= IBV_REREG_MR_CHANGE_TRANSLATION;
			offset = n[0];
			length = n[1];
			/* The old memory stays mapped. */
			if (host && memory_map(&memory, "host", NULL, offset + length)) {
				answer_errno();
				return;
			}
			/* That of the old memory. */
			memory.control = it.memory.control;
		} else if (!strcmp(words[i], "access") && i + 1 < n_words && access_flags(words[i + 1], &access)) {
			i++;
			flags |= IBV_REREG_MR_CHANGE_ACCESS;
		} else if (!strcmp(words[i], "pd")) {
			flags |= IBV_REREG_MR_CHANGE_PD;
			pd = it.other_pd;
			other_pd = it.rdma.pd;
		} else {
			answer("error SYNTAX");
			return;
		}
	}
	if (uverbs_rereg_mr(it.rdma.context, &it.keys, flags, (uintptr_t)memory.addr + offset,
			    length, pd->handle, access)) {
		answer_errno();
		return;
	}
	if (it.mr) {
		it.mr->lkey = it.keys.lkey;
		it.mr->rkey = it.keys.rkey;
	}
	it.memory = memory;
	it.offset = offset;
	it.length = length;
	it.access = access;
	it.rdma.pd = pd;
	it.other_pd = other_pd;
	answer_keys("ok");
}

static void fill(void)
{
	if (memory_fill(its_addr(), it.length, numbers[0]))
		answer("error SIGBUS");
	else
		answer("ok length=%zu", it.length);
}

static void check(void)
{
	size_t wrong;

	if (memory_check(its_addr(), it.length, numbers[0], &wrong))
		answer("error SIGBUS");
	else if (wrong < it.length)
		answer("error MISMATCH at=%zu", wrong);
	else
		answer("ok length=%zu", it.length);
}

static void reg_again(void)
{
	if (it.registered) {
		answer("error EEXIST");
		return;
	}
	if (n_words == 2) {
		it.offset = numbers[0];
		it.length = numbers[1];
	}
	if (reg())
		answer_errno();
	else
		answer_keys("ok");
}

static void fork_and_wait(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(0);
	answer_rc(child < 0 || waitpid(child, &status, 0) < 0 ? -1 : status);
}

/* The descriptor of the device stays open, and with that the MR exists. */
static void become_sleep(void)
{
	if (fcntl(it.rdma.context->cmd_fd, F_SETFD, 0))
		err(1, "fcntl");
	answer("ok");
	execl("/bin/sleep", "sleep", "3600", NULL);
	err(1, "sleep");
}

#define COMMAND(name, call) static void name(void) { call; }
COMMAND(do_dereg, answer_rc(dereg()))
COMMAND(unmap, answer_rc(n_words ? memory_change(&it.memory, "unmap", numbers[0], numbers[1]) :
				   memory_unmap(&it.memory)))
COMMAND(protect, answer_rc(memory_change(&it.memory, "protect", numbers[0], numbers[1])))
COMMAND(remap, answer_rc(memory_change(&it.memory, "remap", numbers[0], numbers[1])))
COMMAND(over, answer_rc(memory_map_over(&it.memory, words[0])))
COMMAND(reset, answer_rc(exporter_vfio_reset(it.memory.fd)))
COMMAND(low_power, answer_rc(exporter_vfio_sleep(it.memory.fd)))
COMMAND(unname, answer_rc(memory_unname(&it.memory)))
COMMAND(move, answer_rc(exporter_move(it.memory.control)))
COMMAND(do_revoke, answer_rc(exporter_revoke(it.memory.control)))
COMMAND(set, answer_rc(exporter_set(it.memory.control, words[0])))
COMMAND(state, answer_state(it.memory.control))
COMMAND(map_chunk, answer_rc(gpu_chunk(true, numbers[0])))
COMMAND(unmap_chunk, answer_rc(gpu_chunk(false, numbers[0])))
COMMAND(free_gpu, answer_rc(gpu_free()))
COMMAND(write_mr, transfer(IBV_WR_RDMA_WRITE, numbers[0]))
COMMAND(read_mr, transfer(IBV_WR_RDMA_READ, numbers[0]))
COMMAND(writer, writer_start())
COMMAND(do_churn, churn(numbers[0]))
COMMAND(do_look, look(&numbers[0]))
COMMAND(sum, look(NULL))

/* The words that a command has, and whether these are numbers. */
static const struct command {
	const char *name;
	void (*run)(void);
	int least, most;
	bool numbers;
} commands[] = {
	{ "fill", fill, 1, 1, true }, { "check", check, 1, 1, true }, { "rereg", rereg, 1, WORDS, false },
	{ "dereg", do_dereg, 0, 0, true }, { "reg", reg_again, 0, 2, true },
	{ "unmap", unmap, 0, 2, true }, { "protect", protect, 2, 2, true }, { "remap", remap, 2, 2, true },
	{ "over", over, 1, 1, false }, { "fork", fork_and_wait, 0, 0, true }, { "exec", become_sleep, 0, 0, true },
	{ "reset", reset, 0, 0, true }, { "sleep", low_power, 0, 0, true }, { "unname", unname, 0, 0, true },
	{ "write", write_mr, 1, 1, true }, { "read", read_mr, 1, 1, true }, { "writer", writer, 0, 0, true },
	{ "stop", writer_stop, 0, 0, true }, { "move", move, 0, 0, true }, { "revoke", do_revoke, 0, 0, true },
	{ "set", set, 1, 1, false }, { "state", state, 0, 0, true }, { "map-chunk", map_chunk, 1, 1, true },
	{ "unmap-chunk", unmap_chunk, 1, 1, true }, { "free", free_gpu, 0, 0, true },
	{ "churn", do_churn, 1, 1, true }, { "look", do_look, 1, 1, true }, { "sum", sum, 0, 0, true },
};

static void execute(const char *name, char **save)
{
	bool valid = true;

	for (n_words = 0; n_words < WORDS && (words[n_words] = strtok_r(NULL, " \n", save)); n_words++)
		;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct command *c = &commands[i];

		if (strcmp(c->name, name))
			continue;
		valid = c->least <= n_words && n_words <= c->most;
		for (int n = 0; valid && c->numbers && n < n_words; n++)
			valid = parse_number(words[n], &numbers[n]);
		if (valid) {
			c->run();
			return;
		}
	}
	answer("error SYNTAX");
}

int main(int argc, char **argv)
{
	size_t page = sysconf(_SC_PAGESIZE), map_length = 0, size = 0;
	bool full = false;
	const char *shape = NULL;
	char *line = NULL;
	int c, gid_index = 0;

	while ((c = getopt(argc, argv, "fik:m:q:s:x:")) != -1) {
		switch (c) {
		case 'f': full = true; break;
		case 'i': it.by_ioctl = true; break;
		case 'k':
			if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, optarg) < 0)
				err(1, "keyctl");
			break;
		case 'm': map_length = must_number(optarg); break;
		case 'q':
			it.kind = queue_kind(optarg);
			if (!it.kind)
				usage();
			break;
		case 's': shape = optarg; break;
		case 'x': gid_index = must_number(optarg); break;
		default: usage();
		}
	}
	argv += optind;
	argc -= optind;
	if (argc < 4 || argc > 5)
		usage();
	it.offset = must_number(argv[2]);
	it.length = must_number(argv[3]);
	if (argc > 4 && !access_flags(argv[4], &it.access))
		usage();
	if (!map_length)
		map_length = (it.offset + it.length + page - 1) & -page;

	it.rdma = rdma_open(argv[0]);
	it.rdma.gid_index = gid_index;
	it.other_pd = ibv_alloc_pd(it.rdma.context);
	if (!it.other_pd)
		err(1, "ibv_alloc_pd");
	/* The driver maps a doorbell for a queue pair, at the latest. */
	if (strcmp(argv[1], "doorbell") == 0)
		pair_make(&it.rdma);
	if (memory_map(&it.memory, argv[1], shape, map_length)) {
		answer_errno();
		return 1;
	}
	while (full && dup(STDIN_FILENO) >= 0)
		;
	if (reg()) {
		answer_errno();
		return 1;
	}
	answer_keys("mr");

	while (getline(&line, &size, stdin) > 0) {
		char *save, *command = strtok_r(line, " \n", &save);

		if (!command)
			continue;
		if (strcmp(command, "quit") == 0)
			break;
		execute(command, &save);
	}
	if (it.registered && dereg())
		err(1, "deregistration");
	if ((errno = ibv_dealloc_pd(it.other_pd)))
		err(1, "ibv_dealloc_pd");
	rdma_close(&it.rdma);
	answer("ok");
	return 0;
}
