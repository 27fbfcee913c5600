// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actions.h"
#include "number.h"

static const char letters[] = "d:m:o:l:s:n:x:c:p:f:h";

static void __attribute__((noreturn)) usage(const struct program *p, int rc)
{
	FILE *to = rc ? stderr : stdout;

	fprintf(to, "usage: %s ACTION [option...] MEMORY [MEMORY]\n"
		"MEMORY is the character device of a BAR (\"iopm list\" shows them), any other file\n"
		"of device memory that can be mapped, or \"host\" for host memory.\n\n", p->name);
	for (size_t i = 0; i < p->n_actions; i++)
		fprintf(to, "  %-8s %s\n", p->actions[i].name, p->actions[i].help);
	fprintf(to, "\n  -d DEVICE   RDMA device (rxe0)\n"
		"  -m BYTES    length of the mapping (1 MiB)\n"
		"  -o BYTES    offset of the MR in the mapping (0)\n"
		"  -l BYTES    length of the MR (to the end of the mapping)\n"
		"  -s SEED     of the pattern (1)\n"
		"  -n COUNT    as the action says (1)\n"
		"  -x INDEX    of the GID (0)\n"
		"  -c HOST     the server's host name or address (localhost)\n"
		"  -p PORT     the server's TCP port (18700)\n"
		"  -f DISK     an NVMe disk, or a file on it\n"
		"  -h, --help  this text\n%s", p->help);
	exit(rc);
}

/* Returns false for an option of the program itself. */
static bool common_option(struct options *o, int letter, const char **device)
{
	switch (letter) {
	case 'd': *device = optarg; break;
	case 'm': o->map_length = must_number(optarg); break;
	case 'o': o->offset = must_number(optarg); break;
	case 'l': o->length = must_number(optarg); break;
	case 's': o->seed = must_number(optarg); break;
	case 'n': o->count = must_number(optarg); break;
	case 'x': o->rdma.gid_index = must_number(optarg); break;
	case 'c': o->host = optarg; break;
	case 'p': o->port = optarg; break;
	case 'f': o->disk = optarg; break;
	default: return false;
	}
	return true;
}

static const struct action *find(const struct program *p, const char *name)
{
	for (size_t i = 0; i < p->n_actions; i++)
		if (!strcmp(p->actions[i].name, name))
			return &p->actions[i];
	usage(p, 2);
}

int program_run(const struct program *p, int argc, char **argv)
{
	static const struct option help[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	struct options o = {
		.seed = 1,
		.map_length = 1 << 20,
		.length = SIZE_MAX,
		.count = 1,
		.host = "localhost",
		.port = "18700",
	};
	const struct action *action;
	const char *device = "rxe0";
	char all[64];
	int c, gid_index;

	/* Others read each line as soon as it is there. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(all, sizeof(all), "%s%s", letters, p->letters);
	while ((c = getopt_long(argc, argv, all, help, NULL)) != -1) {
		if (c == 'h' || c == '?')
			usage(p, c == 'h' ? 0 : 2);
		if (!common_option(&o, c, &device))
			p->option(c, optarg);
	}
	if (optind + 2 > argc)
		usage(p, 2);
	action = find(p, argv[optind]);
	o.memory = argv[optind + 1];
	o.memory2 = optind + 2 < argc ? argv[optind + 2] : o.memory;
	if (o.length == SIZE_MAX)
		o.length = o.map_length - o.offset;
	if (!action->any_range &&
	    (!o.length || o.offset > o.map_length || o.length > o.map_length - o.offset))
		errx(2, "the MR must lie in the mapping");

	gid_index = o.rdma.gid_index;
	o.rdma = rdma_open(device);
	o.rdma.gid_index = gid_index;
	c = action->run(&o);
	rdma_close(&o.rdma);
	return c;
}
