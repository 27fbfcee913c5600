// SPDX-License-Identifier: GPL-2.0
/*
 * bench_run FILE workers|tasks COMMAND [ARGUMENT]...: runs the command, and writes into FILE how many
 * instructions the kernel's workers, or all tasks of the system, have executed meanwhile; see
 * bench_clock.h. Returns the status of the command.
 */
#include <err.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_clock.h"

int main(int argc, char **argv)
{
	int status;
	pid_t pid;
	FILE *f;

	if (argc < 4)
		errx(2, "usage: bench_run FILE workers|tasks COMMAND [ARGUMENT]...");
	f = fopen(argv[1], "w");
	if (!f)
		err(1, "%s", argv[1]);
	bench_clock_init(strcmp(argv[2], "workers") ? BENCH_TASKS : BENCH_WORKERS);
	bench_begin();
	if ((errno = posix_spawnp(&pid, argv[3], NULL, NULL, argv + 3, environ)))
		err(1, "%s", argv[3]);
	if (waitpid(pid, &status, 0) != pid)
		err(1, "%s", argv[3]);
	fprintf(f, "%ju\n", (uintmax_t)bench_end());
	if (fclose(f))
		err(1, "%s", argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
