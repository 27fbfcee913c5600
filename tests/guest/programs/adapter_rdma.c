// SPDX-License-Identifier: GPL-2.0

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "adapter_rdma.h"
#include "exporter.h"
#include "number.h"
#include "pattern.h"

/* Returns the first byte that is not of the pattern; @length: all are. */
static size_t first_wrong(const char *bytes, size_t length, uint64_t seed)
{
	char *want = malloc(length);
	size_t i = 0;

	if (!want)
		err(1, "malloc");
	pattern_fill(want, length, seed);
	while (i < length && bytes[i] == want[i])
		i++;
	free(want);
	return i;
}

static void answer_compared(const char *bytes, size_t length, uint64_t seed)
{
	size_t wrong = first_wrong(bytes, length, seed);

	if (wrong < length)
		answer("error MISMATCH at=%zu", wrong);
	else
		answer("ok length=%zu", length);
}

/* All of the MR, by one request. */
static void transfer(const struct adapter_rdma *mr, enum ibv_wr_opcode opcode, uint64_t seed)
{
	struct rdma rdma = mr->rdma;
	char *bytes = calloc(1, mr->length);
	struct ibv_mr *local;
	struct pair p;
	enum ibv_wc_status status;

	if (!bytes)
		err(1, "calloc");
	if (opcode == IBV_WR_RDMA_WRITE)
		pattern_fill(bytes, mr->length, seed);
	local = rdma_register(&rdma, bytes, mr->length);
	p = pair_make(&rdma);
	status = pair_rw_key(&p, opcode, local, bytes, mr->rkey,
			     (uintptr_t)mr->memory->addr + mr->offset, mr->length);
	pair_free(&p);
	rdma_deregister(local);
	if (status != IBV_WC_SUCCESS)
		answer("error %s", ibv_wc_status_str(status));
	else if (opcode == IBV_WR_RDMA_READ)
		answer_compared(bytes, mr->length, seed);
	else
		answer("ok length=%zu", mr->length);
	free(bytes);
}

/* The memory as the exporter has it: compares it, or without @seed answers a number for its contents. */
static void look(const struct adapter_rdma *mr, const uint64_t *seed)
{
	char *bytes = malloc(mr->length);
	uint64_t sum = 0;

	if (!bytes)
		err(1, "malloc");
	if (exporter_read(mr->memory->control, bytes, mr->length, mr->memory->start + mr->offset)) {
		answer_errno();
	} else if (seed) {
		answer_compared(bytes, mr->length, *seed);
	} else {
		for (size_t i = 0; i < mr->length; i++)
			sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3;
		answer("ok sum=%#llx", (unsigned long long)sum);
	}
	free(bytes);
}

static void answer_state(int control)
{
	struct peer_test_exporter_state s;

	if (exporter_state(control, &s))
		answer_errno();
	else
		answer("ok exists=%u attached=%u mapped=%u pinned=%u moves=%llu late=%llu", s.exists,
		       s.attached, s.mapped, s.pinned, (unsigned long long)s.moves,
		       (unsigned long long)s.late);
}

void answer_rc(int rc)
{
	if (rc)
		answer_errno();
	else
		answer("ok");
}

bool adapter_rdma(const struct adapter_rdma *mr, const char *command, char **save)
{
	int control = mr->memory->control;
	uint64_t seed;
	char *word;

	if (!strcmp(command, "writer")) {
		writer_start(mr);
	} else if (!strcmp(command, "stop")) {
		writer_stop();
	} else if (!strcmp(command, "move")) {
		answer_rc(exporter_move(control));
	} else if (!strcmp(command, "revoke")) {
		answer_rc(exporter_revoke(control));
	} else if (!strcmp(command, "over")) {
		word = strtok_r(NULL, " \n", save);
		answer_rc(word ? memory_map_over(mr->memory, word) : -1);
	} else if (!strcmp(command, "unname")) {
		answer_rc(memory_unname(mr->memory));
	} else if (!strcmp(command, "state")) {
		answer_state(control);
	} else if (!strcmp(command, "set")) {
		word = strtok_r(NULL, " \n", save);
		answer_rc(word ? exporter_set(control, word) : -1);
	} else if (!strcmp(command, "sum")) {
		look(mr, NULL);
	} else if (!strcmp(command, "write") || !strcmp(command, "read") || !strcmp(command, "look")) {
		if (!parse_number(strtok_r(NULL, " \n", save), &seed))
			return false;
		if (*command == 'l')
			look(mr, &seed);
		else
			transfer(mr, *command == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, seed);
	} else {
		return false;
	}
	return true;
}
