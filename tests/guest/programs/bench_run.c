// SPDX-License-Identifier: GPL-2.0
/*
 * bench_run FILE COMMAND [ARGUMENT]...: runs the command, and writes into FILE how many instructions
 * all tasks of the system have executed meanwhile; see bench_clock.h. Returns the status of the
 * command.
 */
#include <err.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_clock.h"

int main(int argc, char **argv)
{
	int status;
	pid_t pid;
	FILE *f;

	if (argc < 3)
		errx(2, "usage: bench_run FILE COMMAND [ARGUMENT]...");
	f = fopen(argv[1], "w");
	if (!f)
		err(1, "%s", argv[1]);
	bench_clock_init(BENCH_TASKS);
	bench_begin();
	if ((errno = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ)))
		err(1, "%s", argv[2]);
	if (waitpid(pid, &status, 0) != pid)
		err(1, "%s", argv[2]);
	fprintf(f, "%ju\n", (uintmax_t)bench_end());
	if (fclose(f))
		err(1, "%s", argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
