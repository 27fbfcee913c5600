// SPDX-License-Identifier: GPL-2.0

#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "umem_queue.h"
#include "uverbs.h"

/* The driver's part of a request, to which it answers with a key; see tests/adapter/queue.rs. */
struct request {
	uint64_t buffer, length, iova;
};

/* Newer than the rdma-core that this is built with. */
enum {
	CREATE_CQ_BUFFER_VA = UVERBS_ATTR_CREATE_CQ_EVENT_FD + 1,
	CREATE_CQ_BUFFER_LENGTH,
	CREATE_CQ_BUFFER_FD,
	CREATE_CQ_BUFFER_OFFSET,
	CREATE_CQ_BUF_UMEM,
};

struct buffer_desc {
	uint32_t type;
	int32_t fd;
	uint32_t flags, optional_flags;
	uint64_t addr, length;
};

#define BUFFER_TYPE_VA 1

enum queue_kind queue_kind(const char *name)
{
	static const char *const names[] = { "", "cq", "cq-va", "cq-umem" };

	for (enum queue_kind kind = QUEUE_CQ; kind <= QUEUE_CQ_UMEM; kind++)
		if (strcmp(name, names[kind]) == 0)
			return kind;
	return QUEUE_NONE;
}

static int create_cq(struct ibv_context *context, const struct request *request, struct queue *queue)
{
	struct {
		struct ib_uverbs_create_cq_resp body;
		uint32_t key;
	} response = { .body = { 0 } };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_cq body;
		struct request driver;
	} cmd = {
		.body = {
			.response = (uintptr_t)&response,
			.cqe = 1,
			.comp_channel = -1,
		},
		.driver = *request,
	};

	if (uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_CREATE_CQ, sizeof(response)))
		return -1;
	queue->cq = response.body.cq_handle;
	queue->key = response.key;
	return 0;
}

/* The buffer is named by @kind's attributes. */
static int create_cq_by_attr(struct ibv_context *context, enum queue_kind kind,
			     const struct request *request, uint64_t addr, struct queue *queue)
{
	const struct buffer_desc desc = {
		.type = BUFFER_TYPE_VA,
		.addr = addr,
		.length = request->length,
	};
	uint32_t cqe;
	struct ib_uverbs_attr attrs[9] = {
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_CQE, 4, 1),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, (uintptr_t)&cqe),
		uverbs_attr(UVERBS_ATTR_UHW_IN, sizeof(*request), (uintptr_t)request),
		uverbs_attr(UVERBS_ATTR_UHW_OUT, sizeof(queue->key), (uintptr_t)&queue->key),
	};
	int n = 7;

	if (kind == QUEUE_CQ_VA) {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_VA, 8, addr);
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_LENGTH, 8, request->length);
	} else {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUF_UMEM, sizeof(desc), (uintptr_t)&desc);
	}
	return uverbs_ioctl(context, RDMA_DRIVER_RXE, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs,
			    n, &queue->cq);
}

int queue_destroy(struct ibv_context *context, const struct queue *queue)
{
	struct ib_uverbs_destroy_cq_resp response;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_cq body;
	} cmd = {
		.body = { .response = (uintptr_t)&response, .cq_handle = queue->cq },
	};

	return uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(response));
}

int queue_create(struct ibv_context *context, enum queue_kind kind, void *addr, size_t length,
		 struct queue *queue)
{
	struct request range = {
		.buffer = (uintptr_t)addr,
		.length = length,
		.iova = (uintptr_t)addr,
	};

	if (kind == QUEUE_CQ)
		return create_cq(context, &range, queue);
	/* No memory is mapped there. */
	range.buffer = sysconf(_SC_PAGESIZE);
	return create_cq_by_attr(context, kind, &range, (uintptr_t)addr, queue);
}
