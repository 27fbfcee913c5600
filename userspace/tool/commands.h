/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The commands. Each gets its own name as argv[0] and returns the exit status: 0, 1 after a
 * failure, STATUS_USAGE after a wrong command line.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <stdint.h>

#define STATUS_USAGE 2

int command_bind(int argc, char **argv);
int command_candidates(int argc, char **argv);
int command_cdi(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_drain(int argc, char **argv);
int command_info(int argc, char **argv);
int command_list(int argc, char **argv);
int command_metrics(int argc, char **argv);
int command_nearest(int argc, char **argv);
int command_regions(int argc, char **argv);
int command_status(int argc, char **argv);
int command_test(int argc, char **argv);
int command_topology(int argc, char **argv);
int command_unbind(int argc, char **argv);

/* Writes a number of bytes as "64 MiB". */
const char *size_text(uint64_t bytes, char text[32]);

#endif /* COMMANDS_H */
