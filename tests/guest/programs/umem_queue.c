// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "umem_queue.h"
#include "uverbs.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* The driver's part of a request and of a response; see tests/adapter/queue.rs. */
struct request {
	uint64_t buffer, length, iova, doorbell;
};

struct response {
	uint32_t buffer, doorbell;
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
	static const char *const names[] = { "", "cq", "cq-va", "cq-umem", "qp", "doorbell" };

	for (enum queue_kind kind = QUEUE_CQ; kind <= QUEUE_DOORBELL; kind++)
		if (strcmp(name, names[kind]) == 0)
			return kind;
	return QUEUE_NONE;
}

/* The buffer is named by @kind's attributes, or by the request alone. */
static int create_cq(struct ibv_context *context, enum queue_kind kind, const struct request *request,
		     uint64_t addr, uint32_t *handle, struct response *keys)
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
		uverbs_attr(UVERBS_ATTR_UHW_OUT, sizeof(*keys), (uintptr_t)keys),
	};
	int n = 7;

	if (kind == QUEUE_CQ_VA) {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_VA, 8, addr);
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_LENGTH, 8, request->length);
	} else if (kind == QUEUE_CQ_UMEM) {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUF_UMEM, sizeof(desc), (uintptr_t)&desc);
	}
	return uverbs_ioctl(context, RDMA_DRIVER_RXE, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs,
			    n, handle);
}

static int destroy_cq(struct ibv_context *context, uint32_t handle)
{
	struct ib_uverbs_destroy_cq_resp response;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_cq body;
	} cmd = {
		.body = { .response = (uintptr_t)&response, .cq_handle = handle },
	};

	return uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(response));
}

static int create_qp(struct ibv_context *context, uint32_t pd, uint32_t cq,
		     const struct request *request, uint32_t *handle, struct response *keys)
{
	struct {
		struct ib_uverbs_create_qp_resp body;
		struct response driver;
	} response = { .body = { 0 } };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_qp body;
		struct request driver;
	} cmd = {
		.body = {
			.response = (uintptr_t)&response,
			.pd_handle = pd,
			.send_cq_handle = cq,
			.recv_cq_handle = cq,
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.qp_type = IBV_QPT_UD,
		},
		.driver = *request,
	};

	if (uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_CREATE_QP, sizeof(response)))
		return -1;
	*handle = response.body.qp_handle;
	*keys = response.driver;
	return 0;
}

static int destroy_qp(struct ibv_context *context, uint32_t handle)
{
	struct ib_uverbs_destroy_qp_resp response;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_qp body;
	} cmd = {
		.body = { .response = (uintptr_t)&response, .qp_handle = handle },
	};

	return uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DESTROY_QP, sizeof(response));
}

/* The request for a queue whose buffer is a page of host memory, which is never freed. */
static int host_request(struct request *request)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -1;
	*request = (struct request) {
		.buffer = (uintptr_t)page,
		.length = PAGE,
		.iova = (uintptr_t)page,
	};
	return 0;
}

static int create_with_qp(struct ibv_context *context, uint32_t pd, enum queue_kind kind,
			  const struct request *range, struct queue *queue)
{
	struct request host, request = *range;
	struct response keys;

	if (host_request(&host) || create_cq(context, QUEUE_CQ, &host, 0, &queue->cq, &keys))
		return -1;
	if (kind == QUEUE_DOORBELL) {
		request = host;
		request.doorbell = range->buffer;
	}
	if (create_qp(context, pd, queue->cq, &request, &queue->qp, &keys)) {
		int saved = errno;

		destroy_cq(context, queue->cq);
		errno = saved;
		return -1;
	}
	queue->has_qp = true;
	queue->key = kind == QUEUE_DOORBELL ? keys.doorbell : keys.buffer;
	return 0;
}

int queue_create(struct ibv_context *context, uint32_t pd, enum queue_kind kind, void *addr,
		 size_t length, struct queue *queue)
{
	struct request range = {
		.buffer = (uintptr_t)addr,
		.length = length,
		.iova = (uintptr_t)addr,
	};
	struct response keys;

	*queue = (struct queue) { .has_qp = false };
	if (kind == QUEUE_QP || kind == QUEUE_DOORBELL)
		return create_with_qp(context, pd, kind, &range, queue);
	/* With an attribute no memory is mapped where the request says. */
	if (kind != QUEUE_CQ)
		range.buffer = PAGE;
	if (create_cq(context, kind, &range, (uintptr_t)addr, &queue->cq, &keys))
		return -1;
	queue->key = keys.buffer;
	return 0;
}

int queue_destroy(struct ibv_context *context, const struct queue *queue)
{
	if (queue->has_qp && destroy_qp(context, queue->qp))
		return -1;
	return destroy_cq(context, queue->cq);
}
