// SPDX-License-Identifier: GPL-2.0
/*
 * adapter_mr - one MR or queue, under the control of a script
 *
 * Registers memory, prints the keys, then reads commands, one per line, and answers
 * each with one line. See usage().
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
#include "exporter_device.h"
#include "memory.h"
#include "number.h"
#include "umem_queue.h"
#include "uverbs.h"
#include "verbs.h"

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
	fputs("usage: adapter_mr [-fi] [-k NAME] [-m BYTES] [-q QUEUE] [-s SHAPE] [-x INDEX]\n"
	      "                  DEVICE MEMORY OFFSET LENGTH [ACCESS[,ACCESS..]]\n"
	      "MEMORY is \"host\", a file to map, \"export:\" and a file: the mapping as a dma-buf of\n"
	      "ib_peer_mem, \"mapped:EXPORTER\": a mapping of a dma-buf, registered by its address,\n"
	      "\"named:EXPORTER\": the same, with its name, or\n"
	      "\"dmabuf:EXPORTER\": the dma-buf of such a mapping. EXPORTER is udmabuf, heap:NAME,\n"
	      "drm:DRIVER, vfio:FUNCTION:BAR, or test[:OPTION,..], with options as \"set\" has them.\n"
	      "\"vfio:FUNCTION:BAR\" is a mapping by vfio-pci itself, at a multiple of 2 MiB; \"doorbell\" a page of\n"
	      "DEVICE that libibverbs has mapped.\n"
	      "\"gpu:WAY[:MIB]\" is memory of a GPU, in chunks of so many MiB (gpu.h).\n"
	      "ACCESS is one or more of: local-write remote-read mw-bind on-demand relaxed all (the default).\n"
	      "  -f        use up all file descriptors first\n"
	      "  -i        register by ioctl(2) instead of write(2)\n"
	      "  -k NAME   join a new session keyring first\n"
	      "  -m BYTES  length of the mapping (to the end of the MR, in whole pages)\n"
	      "  -q QUEUE  create a queue instead of an MR. The memory is the buffer of a CQ (cq, or\n"
	      "            named by attributes cq-va, cq-umem). The keys are that of this memory.\n"
	      "  -s SHAPE  of the mapping of a dma-buf: whole part split pieces read-only private\n"
	      "            swapped two hole tail head guarded read-tail none (mapped.h)\n"
	      "  -x INDEX  of the GID, for write, read and writer (0)\n\n"
	      "Prints \"mr lkey=.. rkey=.. addr=.. length=..\", or \"error ERRNO\" and exits with 1.\n"
	      "Then reads commands and answers \"ok ..\" or \"error ERRNO\":\n"
	      "  fill SEED            write a pattern to the range of the MR, by the CPU\n"
	      "  check SEED           compare; \"error MISMATCH at=..\" at the first difference\n"
	      "  rereg [start OFFSET LENGTH] [host OFFSET LENGTH] [access ACCESS] [pd]\n"
	      "                       change the range, the memory, the access, the PD\n"
	      "  dereg                deregister\n"
	      "  reg [OFFSET LENGTH]  register again, the same range or another\n"
	      "  twin                 another MR of the range, by the descriptor of the dma-buf that is\n"
	      "                       mapped\n"
	      "  unmap                unmap the memory and close its file; the MR stays\n"
	      "  unmap OFFSET LENGTH  unmap a part\n"
	      "  protect OFFSET LENGTH\n"
	      "                       permit only reads of a part, by mprotect(2)\n"
	      "  remap OFFSET LENGTH  move a part to other addresses, by mremap(2)\n"
	      "  over MEMORY          map other memory at the addresses: host, reserved (never accessed),\n"
	      "                       same (the mapped file) or EXPORTER\n"
	      "  fork                 fork a child, which ends\n"
	      "  exec                 become sleep(1), with the MR; the last answer\n"
	      "  reset, sleep         the function that vfio-pci has\n"
	      "  unname               remove the name of the memory\n"
	      "  write SEED           write a pattern to the MR by RDMA, from host memory\n"
	      "  read SEED            compare, by RDMA\n"
	      "  writer               write by RDMA until \"stop\", or until that fails\n"
	      "  stop                 end that, and compare; \"ok status=.. writes=..\"\n"
	      "  move, revoke         the memory of the test exporter\n"
	      "  set NAME=NUMBER      attach-error, map-error, pin-error, map-delay, peer2peer, and before\n"
	      "                       the dma-buf exists: function\n"
	      "  map-chunk N, unmap-chunk N, free\n"
	      "                       of the memory of a GPU\n"
	      "  churn TIMES          register the range while chunk 1 is mapped and unmapped\n"
	      "  state                of the dma-buf: \"ok exists=.. attached=.. mapped=.. pinned=..\n"
	      "                       moves=.. late=..\"; late: bytes written to pages left by a move\n"
	      "  look SEED            compare the memory as the exporter has it\n"
	      "  sum                  a number for its contents: \"ok sum=..\"\n"
	      "  quit                 end, as at the end of the input\n"
	      "Numbers may be hexadecimal. An access to removed memory is \"error SIGBUS\".\n", stderr);
	exit(2);
}

/* The MR or queue. */
static struct {
	struct rdma rdma;
	struct ibv_pd *pd[2];
	int pd_in_use;
	struct memory memory;
	size_t offset, length;
	int access;
	struct ibv_mr *mr;	/* NULL: not made by libibverbs */
	enum queue_kind kind;
	struct queue queue;
	struct keys keys;
	struct keys twin;	/* of another MR of the same range, on its dma-buf */
	bool has_twin;
	bool registered;
	bool by_ioctl;
} it;

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
	       (unsigned long long)(uintptr_t)(it.memory.addr + it.offset), it.length);
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
	return uverbs_reg_dmabuf_mr(it.rdma.context, driver(), it.pd[it.pd_in_use]->handle, dmabuf,
				    it.memory.start + it.offset, it.length,
				    (uintptr_t)it.memory.addr + it.offset, it.access, keys);
}

static int reg(void)
{
	char *addr = it.memory.addr + it.offset;
	struct ibv_pd *pd = it.pd[it.pd_in_use];

	if (it.kind) {
		if (queue_create(it.rdma.context, it.kind, addr, it.length, &it.queue))
			return -1;
		it.keys = (struct keys) { .lkey = it.queue.key, .rkey = it.queue.key };
	} else if (it.memory.dmabuf >= 0) {
		if (reg_dmabuf(it.memory.dmabuf, &it.keys))
			return -1;
	} else if (it.by_ioctl) {
		if (uverbs_reg_mr(it.rdma.context, driver(), pd->handle, (uintptr_t)addr,
				  it.length, it.access, &it.keys))
			return -1;
	} else {
		it.mr = reg_mr(pd, addr, it.length, it.access);
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

/* Parses the words after "rereg"; false: a syntax error. */
static bool rereg(char **save)
{
	struct memory memory = it.memory;
	size_t offset = it.offset, length = it.length;
	int flags = 0, access = it.access, pd = it.pd_in_use;
	uint64_t n[2];
	char *word;

	while ((word = strtok_r(NULL, " \n", save))) {
		if (strcmp(word, "start") == 0 || strcmp(word, "host") == 0) {
			if (!parse_number(strtok_r(NULL, " \n", save), &n[0]) ||
			    !parse_number(strtok_r(NULL, " \n", save), &n[1]))
				return false;
			flags |= IBV_REREG_MR_CHANGE_TRANSLATION;
			offset = n[0];
			length = n[1];
			/* The old memory stays mapped. */
			if (*word == 'h' && memory_map(&memory, "host", NULL, offset + length)) {
				answer_errno();
				return true;
			}
			/* That of the old memory. */
			memory.control = it.memory.control;
		} else if (strcmp(word, "access") == 0) {
			if (!access_flags(strtok_r(NULL, " \n", save), &access))
				return false;
			flags |= IBV_REREG_MR_CHANGE_ACCESS;
		} else if (strcmp(word, "pd") == 0) {
			flags |= IBV_REREG_MR_CHANGE_PD;
			pd = !pd;
		} else {
			return false;
		}
	}
	if (uverbs_rereg_mr(it.rdma.context, &it.keys, flags, (uintptr_t)memory.addr + offset,
			    length, it.pd[pd]->handle, access)) {
		answer_errno();
		return true;
	}
	if (it.mr) {
		it.mr->lkey = it.keys.lkey;
		it.mr->rkey = it.keys.rkey;
	}
	it.memory = memory;
	it.offset = offset;
	it.length = length;
	it.access = access;
	it.pd_in_use = pd;
	answer_keys("ok");
	return true;
}

/* Makes another MR of the range, on the dma-buf, until the next one. */
static void make_twin(void)
{
	if (it.has_twin && uverbs_dereg_mr(it.rdma.context, &it.twin))
		err(1, "deregistration");
	it.has_twin = false;
	if (reg_dmabuf(it.memory.fd, &it.twin)) {
		answer_errno();
		return;
	}
	it.has_twin = true;
	answer("ok lkey=%#x rkey=%#x", it.twin.lkey, it.twin.rkey);
}

static void check(uint64_t seed)
{
	size_t wrong;

	if (memory_check(it.memory.addr + it.offset, it.length, seed, &wrong))
		answer("error SIGBUS");
	else if (wrong < it.length)
		answer("error MISMATCH at=%zu", wrong);
	else
		answer("ok length=%zu", it.length);
}

/* Parses the words after "reg"; false: a syntax error. */
static bool reg_again(char **save)
{
	char *word = strtok_r(NULL, " \n", save);
	uint64_t n[2] = { it.offset, it.length };

	if (it.registered)
		return false;
	if (word && (!parse_number(word, &n[0]) ||
		     !parse_number(strtok_r(NULL, " \n", save), &n[1])))
		return false;
	it.offset = n[0];
	it.length = n[1];
	if (reg())
		answer_errno();
	else
		answer_keys("ok");
	return true;
}

/* "unmap" without numbers is all of the memory, and closes its file. false: a syntax error. */
static bool change(const char *how, char **save)
{
	char *word = strtok_r(NULL, " \n", save);
	uint64_t n[2];

	if (!word && strcmp(how, "unmap") == 0) {
		answer_rc(memory_unmap(&it.memory));
		return true;
	}
	if (!parse_number(word, &n[0]) || !parse_number(strtok_r(NULL, " \n", save), &n[1]))
		return false;
	answer_rc(memory_change(&it.memory, how, n[0], n[1]));
	return true;
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

/* Returns false for an unknown command. */
static bool execute(const char *command, char **save)
{
	struct adapter_rdma rdma = {
		.rdma = it.rdma,
		.memory = &it.memory,
		.offset = it.offset,
		.length = it.length,
		.rkey = it.keys.rkey,
	};
	uint64_t seed;

	rdma.rdma.pd = it.pd[it.pd_in_use];
	if (adapter_rdma(&rdma, command, save))
		return true;
	if (strcmp(command, "rereg") == 0)
		return !it.kind && rereg(save);
	if (strcmp(command, "dereg") == 0) {
		answer_rc(dereg());
		return true;
	}
	if (strcmp(command, "twin") == 0) {
		make_twin();
		return true;
	}
	if (strcmp(command, "unmap") == 0 || strcmp(command, "protect") == 0 ||
	    strcmp(command, "remap") == 0)
		return change(command, save);
	if (strcmp(command, "fork") == 0) {
		fork_and_wait();
		return true;
	}
	if (strcmp(command, "exec") == 0)
		become_sleep();
	if (strcmp(command, "reset") == 0) {
		answer_rc(exporter_vfio_reset(it.memory.fd));
		return true;
	}
	if (strcmp(command, "sleep") == 0) {
		answer_rc(exporter_vfio_sleep(it.memory.fd));
		return true;
	}
	if (strcmp(command, "reg") == 0)
		return reg_again(save);
	if (!parse_number(strtok_r(NULL, " \n", save), &seed))
		return false;
	if (strcmp(command, "fill") == 0) {
		if (memory_fill(it.memory.addr + it.offset, it.length, seed))
			answer("error SIGBUS");
		else
			answer("ok length=%zu", it.length);
	} else if (strcmp(command, "check") == 0) {
		check(seed);
	} else {
		return false;
	}
	return true;
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
	it.access = accesses[N_ACCESSES - 1].flags;
	if (argc > 4 && !access_flags(argv[4], &it.access))
		usage();
	if (!map_length)
		map_length = (it.offset + it.length + page - 1) & -page;

	it.rdma = rdma_open(argv[0]);
	it.rdma.gid_index = gid_index;
	it.pd[0] = it.rdma.pd;
	it.pd[1] = ibv_alloc_pd(it.rdma.context);
	if (!it.pd[1])
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
		if (!execute(command, &save))
			answer("error SYNTAX");
	}
	if (it.has_twin && uverbs_dereg_mr(it.rdma.context, &it.twin))
		err(1, "deregistration");
	if (it.registered && dereg())
		err(1, "deregistration");
	if ((errno = ibv_dealloc_pd(it.pd[1])))
		err(1, "ibv_dealloc_pd");
	rdma_close(&it.rdma);
	answer("ok");
	return 0;
}
