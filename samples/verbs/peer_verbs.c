// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * peer_verbs - how an application does RDMA to device memory
 *
 * Peer memory adds no call: map the device memory, call ibv_reg_mr() on the address,
 * use the keys. Read do_write() in write.c first, then remote.c for two hosts.
 * buffer.c has the one difference between device memory and malloc(): the mapping.
 */
#include "actions.h"

static const struct action actions[] = { SAMPLE_ACTIONS };

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "peer_verbs",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "",
		.help = "",
	};

	return program_run(&program, argc, argv);
}
