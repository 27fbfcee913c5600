// SPDX-License-Identifier: GPL-2.0
/*
 * peer_rdma - how an application does RDMA into device memory
 *
 * With peer memory there is nothing to learn: map the device memory, call
 * ibv_reg_mr() on the address, use the keys. Read do_write() in actions.c first, then
 * remote.c for two hosts; buffer.c has the one place where device memory differs from
 * malloc().
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actions.h"

static const struct {
	const char *name;
	int (*action)(struct options *o);
	const char *help;
} actions[] = {
	{ "write", do_write, "RDMA WRITE of a pattern into MEMORY, READ back, compare" },
	{ "atomic", do_atomic, "fetch-and-add and compare-and-swap on MEMORY" },
	{ "copy", do_copy, "RDMA WRITE from MEMORY into a second MEMORY" },
	{ "forever", do_forever, "write until the memory is revoked, then try -t seconds more" },
	{ "hold", do_hold, "make -n MRs and sleep for -t seconds" },
	{ "reg", do_reg, "one registration; prints the name of its errno, or ok" },
	{ "serve", do_serve, "let other hosts read and write MEMORY, -n of them" },
	{ "remote", do_remote, "RDMA WRITE from MEMORY to the server's, READ back to the second" },
	{ "stream", do_stream, "write to the server until that fails, then try -n times more" },
};

#define N_ACTIONS (sizeof(actions) / sizeof(actions[0]))

static void __attribute__((noreturn)) usage(int rc)
{
	fprintf(rc ? stderr : stdout,
		"usage: peer_rdma ACTION [option...] MEMORY [MEMORY]\n"
		"MEMORY is the character device of a BAR (\"iopm list\" shows them), any other file\n"
		"of device memory to map, or \"host\" for host memory.\n\n");
	for (size_t i = 0; i < N_ACTIONS; i++)
		fprintf(rc ? stderr : stdout, "  %-8s %s\n", actions[i].name, actions[i].help);
	fprintf(rc ? stderr : stdout,
		"\n  -d DEVICE   RDMA device (rxe0)\n"
		"  -m BYTES    length of the mapping (1 MiB)\n"
		"  -o BYTES    offset of the MR in the mapping (0)\n"
		"  -l BYTES    length of the MR (to the end of the mapping)\n"
		"  -s SEED     of the pattern (1)\n"
		"  -n COUNT    see hold, serve, stream (1)\n"
		"  -t SECONDS  see forever, hold\n"
		"  -@ ADDRESS  where to map\n"
		"  -u          for forever: unmap the memory once it is registered\n"
		"  -x INDEX    of the GID (0)\n"
		"  between two hosts:\n"
		"  -c HOST     where the server is\n"
		"  -p PORT     where it listens (18700)\n"
		"  -h, --help  this\n"
		"  for reg:\n"
		"  -a FLAGS    access: l(ocal write) w(rite) r(ead) a(tomic) (lwra)\n"
		"  -R          map read-only\n"
		"  -M          do not map at all\n");
	exit(rc);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (*end || end == text)
		errx(2, "not a number: %s", text);
	return n;
}

static int access_flags(const char *text)
{
	int flags = 0;

	for (; *text; text++) {
		switch (*text) {
		case 'l': flags |= IBV_ACCESS_LOCAL_WRITE; break;
		case 'w': flags |= IBV_ACCESS_REMOTE_WRITE; break;
		case 'r': flags |= IBV_ACCESS_REMOTE_READ; break;
		case 'a': flags |= IBV_ACCESS_REMOTE_ATOMIC; break;
		default: errx(2, "no such access: %c", *text);
		}
	}
	return flags;
}

int main(int argc, char **argv)
{
	struct options o = {
		.seed = 1,
		.map_length = 1 << 20,
		.access = ACCESS_ALL,
		.count = 1,
		.host = "localhost",
		.port = "18700",
	};
	static const struct option help[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	const char *device = "rxe0";
	int gid_index = 0;
	bool length_given = false;
	size_t action;
	int c;

	while ((c = getopt_long(argc, argv, "d:m:o:l:s:n:t:@:a:x:c:p:uRMh", help, NULL)) != -1) {
		switch (c) {
		case 'd': device = optarg; break;
		case 'm': o.map_length = number(optarg); break;
		case 'o': o.offset = number(optarg); break;
		case 'l': o.length = number(optarg); length_given = true; break;
		case 's': o.seed = number(optarg); break;
		case 'n': o.count = number(optarg); break;
		case 't': o.seconds = number(optarg); break;
		case '@': o.at = (void *)(uintptr_t)number(optarg); break;
		case 'a': o.access = access_flags(optarg); break;
		case 'x': gid_index = number(optarg); break;
		case 'c': o.host = optarg; break;
		case 'p': o.port = optarg; break;
		case 'u': o.unmap = true; break;
		case 'R': o.read_only = true; break;
		case 'M': o.no_map = true; break;
		case 'h': usage(0);
		default: usage(2);
		}
	}
	if (optind + 2 > argc)
		usage(2);
	for (action = 0; strcmp(actions[action].name, argv[optind]); )
		if (++action == N_ACTIONS)
			usage(2);
	o.memory = argv[optind + 1];
	o.memory2 = optind + 2 < argc ? argv[optind + 2] : o.memory;
	if (!length_given)
		o.length = o.map_length - o.offset;
	/* Only reg may ask for what cannot be. */
	if (actions[action].action != do_reg &&
	    (!o.length || o.offset > o.map_length || o.length > o.map_length - o.offset))
		errx(2, "the MR must lie in the mapping");

	o.rdma = rdma_open(device);
	o.rdma.gid_index = gid_index;
	c = actions[action].action(&o);
	/* MRs that an action keeps go with the process. */
	if (actions[action].action != do_hold)
		rdma_close(&o.rdma);
	return c;
}
