// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* NVIDIA's driver in DKMS: whether it is built for the running kernel, and why not. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "sys.h"

#define TREE "/var/lib/dkms"

/* Begins "dkms status" for a kernel. Its output is read until the end, then *pid has ended. */
static FILE *dkms_status(const char *release, pid_t *pid)
{
	char tree[PATH_MAX];
	int ends[2];

	sys_path(tree, TREE);
	if (pipe(ends))
		return NULL;
	/* The child must not print what the report has printed. */
	fflush(NULL);
	*pid = fork();
	if (!*pid) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		if (!freopen("/dev/null", "w", stderr))
			_exit(127);
		execlp("dkms", "dkms", "status", "-k", release, "--dkmstree", tree, NULL);
		_exit(127);
	}
	close(ends[1]);
	if (*pid < 0) {
		close(ends[0]);
		return NULL;
	}
	return fdopen(ends[0], "r");
}

#define LINES 3

/* The last lines of a file that have a text, or the last ones of all for NULL. */
struct tail {
	const char *with;
	char lines[LINES][256];
	int count;
};

static void tail_line(struct tail *tail, const char *line)
{
	if (line[0] && (!tail->with || strstr(line, tail->with)))
		snprintf(tail->lines[tail->count++ % LINES], sizeof(tail->lines[0]), "%s", line);
}

static void tail_add(const struct tail *tail, char *text, size_t size)
{
	for (int i = tail->count > LINES ? tail->count - LINES : 0; i < tail->count; i++) {
		size_t length = strlen(text);

		snprintf(text + length, size - length, "\n        | %.120s", tail->lines[i % LINES]);
	}
}

/* Adds the compiler's errors and the last lines of the log, if that is of this kernel. */
static void add_log(const char *module, const char *release, char *text, size_t size)
{
	struct tail errors = { .with = "error:" }, last = { 0 };
	char *line = NULL;
	size_t room = 0;
	bool ours = false;
	FILE *f = sys_open(TREE "/%s/build/make.log", module);

	if (!f)
		return;
	while (getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		/* The first line names the kernel. */
		ours |= !last.count && strstr(line, release);
		tail_line(&errors, line);
		tail_line(&last, line);
	}
	free(line);
	fclose(f);
	if (!ours)
		return;
	snprintf(text + strlen(text), size - strlen(text), "; in make.log:");
	tail_add(&errors, text, size);
	tail_add(&last, text, size);
}

const char *nvidia_release_fix(void)
{
	static char fix[160];
	struct release release = sys_release();

	snprintf(fix, sizeof(fix), "install NVIDIA's open kernel modules after ib-peer-mem-dkms, of a "
		 "release whose notes name Linux %d.%d", release.major, release.minor);
	return fix;
}

/* @line: NAME/VERSION[, RELEASE, ARCHITECTURE]: STATE */
static void check_line(const char *line, const char *release)
{
	char text[1000], module[128], fix[300];

	snprintf(module, sizeof(module), "%.*s", (int)strcspn(line, ",: "), line);
	if (strstr(line, ": installed")) {
		report(OK, NULL, "dkms status: %s", line);
		return;
	}
	snprintf(text, sizeof(text), "dkms status: %.300s: not installed for Linux %s", line, release);
	if (strstr(line, ": built")) {
		snprintf(fix, sizeof(fix), "dkms install %s -k %s", module, release);
		report(FAIL, fix, "%s", text);
		return;
	}
	add_log(module, release, text, sizeof(text));
	report(FAIL, nvidia_release_fix(), "%s", text);
}

void check_nvidia_dkms(void)
{
	struct release release = sys_release();
	char *line = NULL;
	size_t size = 0;
	pid_t pid;
	FILE *f;

	f = dkms_status(release.name, &pid);
	if (!f)
		return;
	while (getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "nvidia", 6))
			check_line(line, release.name);
	}
	free(line);
	fclose(f);
	waitpid(pid, NULL, 0);
}
