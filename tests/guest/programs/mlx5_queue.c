// SPDX-License-Identifier: GPL-2.0
/*
 * mlx5_queue - queues of mlx5 whose buffers and doorbell records lie in device memory
 *
 * Two queue pairs, of one process, that are connected to each other. One sends a message, the
 * other one answers it by an RDMA WRITE. The queues, the doorbell records and the messages
 * are in MEMORY, which is also an exporter of dma-bufs, as "mapped:udmabuf" (memory.h).
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "actions.h"
#include "memory.h"
#include "mlx5_queue.h"
#include "number.h"
#include "pattern.h"

#define MESSAGE 256
#define TIMEOUT 10

static bool keep;

void *area_take(struct area *area, size_t size, size_t alignment)
{
	size_t start = (area->used + alignment - 1) / alignment * alignment;

	if (start > area->length || size > area->length - start) {
		errno = ENOSPC;
		return NULL;
	}
	area->used = start + size;
	return memset(area->addr + start, 0, size);
}

/* Prints the errno of what could not be made. */
static int refused(const char *what)
{
	const char *name = strerrorname_np(errno);

	printf("%s: error %s\n", what, name ? name : "UNKNOWN");
	return 1;
}

static void complete(const struct queue_ops *ops, struct queue *queue)
{
	time_t end = time(NULL) + TIMEOUT;

	while (!ops->poll(queue))
		if (time(NULL) > end)
			errx(1, "no completion on the %s queue", ops->name);
}

/* One of the two. */
struct side {
	const struct queue_ops *ops;
	struct queue *queue;
	struct message message;
};

/* MEMORY, which is never unmapped. */
static char *map(const struct options *o)
{
	struct memory memory;

	if (memory_map(&memory, o->memory, NULL, o->map_length))
		err(1, "%s", o->memory);
	return memory.addr;
}

/* The messages are compared by the CPU, with patterns of which no two are alike. */
static void must_have(const struct message *message, uint64_t seed)
{
	char want[MESSAGE];

	pattern_fill(want, MESSAGE, seed);
	if (memcmp(message->addr, want, MESSAGE))
		errx(1, "message %llu has not arrived", (unsigned long long)seed);
}

static void run_rounds(struct side *near, struct side *far, uint32_t rkey, int rounds)
{
	for (uint64_t seed = 0; seed < (uint64_t)rounds * 2; seed += 2) {
		far->ops->receive(far->queue, &far->message);
		pattern_fill(near->message.addr, MESSAGE, seed);
		near->ops->send(near->queue, &near->message, 0, 0);
		complete(far->ops, far->queue);
		must_have(&far->message, seed);
		pattern_fill(far->message.addr, MESSAGE, seed + 1);
		far->ops->send(far->queue, &far->message, (uintptr_t)near->message.addr, rkey);
		complete(far->ops, far->queue);
		must_have(&near->message, seed + 1);
		/* That of the message. */
		complete(near->ops, near->queue);
	}
}

static int run(struct options *o, struct side *near, struct side *far)
{
	struct area area = { .addr = map(o), .length = o->map_length };
	struct side *sides[] = { near, far };
	struct address addresses[2];
	struct ibv_mr *mr;

	for (int i = 0; i < 2; i++) {
		sides[i]->queue = sides[i]->ops->create(&o->rdma, &area);
		if (!sides[i]->queue)
			return refused(sides[i]->ops->name);
		addresses[i] = sides[i]->ops->address(sides[i]->queue);
	}
	mr = rdma_register(&o->rdma, area.addr, area.length);
	for (int i = 0; i < 2; i++) {
		sides[i]->ops->connect(sides[i]->queue, &addresses[!i]);
		sides[i]->message = (struct message) {
			.addr = area_take(&area, MESSAGE, MESSAGE),
			.length = MESSAGE,
			.lkey = mr->lkey,
		};
		if (!sides[i]->message.addr)
			err(1, "the memory is too short");
	}
	run_rounds(near, far, mr->rkey, o->count);
	printf("%d rounds, %zu bytes used\n", o->count, area.used);
	while (keep)
		pause();
	for (int i = 0; i < 2; i++)
		sides[i]->ops->destroy(sides[i]->queue);
	rdma_deregister(mr);
	return 0;
}

static int do_devx(struct options *o)
{
	return run(o, &(struct side) { .ops = &devx_queue }, &(struct side) { .ops = &devx_queue });
}

static int do_verbs(struct options *o)
{
	return run(o, &(struct side) { .ops = &verbs_queue },
		   &(struct side) { .ops = &verbs_queue });
}

static int do_mixed(struct options *o)
{
	return run(o, &(struct side) { .ops = &devx_queue },
		   &(struct side) { .ops = &verbs_queue });
}

static int do_umem(struct options *o)
{
	struct mlx5dv_devx_umem *umem;

	umem = mlx5dv_devx_umem_reg(o->rdma.context, map(o) + o->offset, o->length,
				    IBV_ACCESS_LOCAL_WRITE);
	if (!umem)
		return refused("umem");
	printf("umem: ok\n");
	while (keep)
		pause();
	if (mlx5dv_devx_umem_dereg(umem))
		err(1, "mlx5dv_devx_umem_dereg");
	return 0;
}

static void option(int letter, const char *argument)
{
	(void)letter;
	(void)argument;
	keep = true;
}

static const struct action actions[] = {
	{ "devx", do_devx, "both by DEVX; -n rounds", false },
	{ "verbs", do_verbs, "both by the verbs; -n rounds", false },
	{ "mixed", do_mixed, "one of each; -n rounds", false },
	{ "umem", do_umem, "one DEVX umem; prints ok, or the name of its errno", false },
};

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "mlx5_queue",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "k",
		.option = option,
		.help = "  -k          then wait to be killed\n",
	};

	return program_run(&program, argc, argv);
}
