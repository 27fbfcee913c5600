// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "uverbs.h"

/* A command of the write interface, which counts lengths in words of 4 bytes. */
static int command(struct ibv_context *context, void *cmd, size_t size, uint32_t number, size_t response)
{
	struct ib_uverbs_cmd_hdr *hdr = cmd;

	hdr->command = number;
	hdr->in_words = size / 4;
	hdr->out_words = response / 4;
	return write(context->cmd_fd, cmd, size) == (ssize_t)size ? 0 : -1;
}

int uverbs_rereg_mr(struct ibv_context *context, struct keys *keys, int flags,
		    uint64_t start, uint64_t length, uint32_t pd, int access)
{
	struct ib_uverbs_rereg_mr_resp response = { 0 };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr body;
	} cmd = {
		.body = {
			.response = (uintptr_t)&response,
			.mr_handle = keys->handle,
			.flags = flags,
			.start = start,
			.length = length,
			.hca_va = start,
			.pd_handle = pd,
			.access_flags = access,
		},
	};

	if (command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_REREG_MR, sizeof(response)))
		return -1;
	keys->lkey = response.lkey;
	keys->rkey = response.rkey;
	return 0;
}

int uverbs_dereg_mr(struct ibv_context *context, const struct keys *keys)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_dereg_mr body;
	} cmd = { .body = { .mr_handle = keys->handle } };

	return command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DEREG_MR, 0);
}

static struct ib_uverbs_attr uverbs_attr(int id, size_t len, uint64_t data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id,
		.len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
}

/* A method of the ioctl interface. The first attribute is the new object. */
static int uverbs_ioctl(struct ibv_context *context, uint32_t driver, int object, int method,
			const struct ib_uverbs_attr *attrs, size_t n, uint32_t *handle)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[16];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd.hdr) + n * sizeof(*attrs),
			.object_id = object,
			.method_id = method,
			.num_attrs = n,
			.driver_id = driver,
		},
	};

	memcpy(cmd.attrs, attrs, n * sizeof(*attrs));
	if (ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return -1;
	*handle = cmd.attrs[0].data;
	return 0;
}

int uverbs_reg_dmabuf_mr(struct ibv_context *context, uint32_t driver, uint32_t pd,
			 int fd, uint64_t offset, uint64_t length, uint64_t iova,
			 int access, struct keys *keys)
{
	/* Up to 8 bytes of data are inline. */
	const struct ib_uverbs_attr attrs[] = {
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&keys->lkey),
		uverbs_attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&keys->rkey),
	};

	return uverbs_ioctl(context, driver, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, attrs, 9,
			    &keys->handle);
}

/* Not in the headers of the rdma-core that this is built with. */
enum {
	METHOD_REG_MR = 5,
	REG_MR_HANDLE = 0,
	REG_MR_PD_HANDLE = 1,
	REG_MR_IOVA = 3,
	REG_MR_ADDR = 4,
	REG_MR_LENGTH = 5,
	REG_MR_ACCESS_FLAGS = 6,
	REG_MR_RESP_LKEY = 9,
	REG_MR_RESP_RKEY = 10,
};

int uverbs_reg_mr(struct ibv_context *context, uint32_t driver, uint32_t pd, uint64_t addr,
		  uint64_t length, int access, struct keys *keys)
{
	const struct ib_uverbs_attr attrs[] = {
		uverbs_attr(REG_MR_HANDLE, 0, 0),
		uverbs_attr(REG_MR_PD_HANDLE, 0, pd),
		uverbs_attr(REG_MR_IOVA, 8, addr),
		uverbs_attr(REG_MR_ADDR, 8, addr),
		uverbs_attr(REG_MR_LENGTH, 8, length),
		uverbs_attr(REG_MR_ACCESS_FLAGS, 4, access),
		uverbs_attr(REG_MR_RESP_LKEY, 4, (uintptr_t)&keys->lkey),
		uverbs_attr(REG_MR_RESP_RKEY, 4, (uintptr_t)&keys->rkey),
	};

	return uverbs_ioctl(context, driver, UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, 8,
			    &keys->handle);
}

/* --- queues of the test adapter --- */

/* The driver's part of a request, to which it answers with a key; see tests/adapter/queue.rs. */
struct request {
	uint64_t buffer, length, iova;
};

/* Newer than the rdma-core that this is built with. */
enum {
	CREATE_CQ_BUFFER_VA = UVERBS_ATTR_CREATE_CQ_EVENT_FD + 1,
	CREATE_CQ_BUFFER_LENGTH,
	/* And by a file. */
	CREATE_CQ_BUF_UMEM = CREATE_CQ_BUFFER_LENGTH + 3,
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

int queue_destroy(struct ibv_context *context, const struct queue *queue)
{
	struct ib_uverbs_destroy_cq_resp response;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_cq body;
	} cmd = {
		.body = { .response = (uintptr_t)&response, .cq_handle = queue->cq },
	};

	return command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(response));
}

int queue_create(struct ibv_context *context, enum queue_kind kind, void *addr, size_t length,
		 struct queue *queue)
{
	const struct request request = {
		/* No memory is mapped at the first page. */
		.buffer = kind == QUEUE_CQ ? (uintptr_t)addr : (uint64_t)sysconf(_SC_PAGESIZE),
		.length = length,
		.iova = (uintptr_t)addr,
	};
	const struct buffer_desc desc = {
		.type = BUFFER_TYPE_VA,
		.addr = (uintptr_t)addr,
		.length = length,
	};
	uint32_t cqe;
	struct ib_uverbs_attr attrs[9] = {
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_CQE, 4, 1),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0),
		uverbs_attr(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, (uintptr_t)&cqe),
		uverbs_attr(UVERBS_ATTR_UHW_IN, sizeof(request), (uintptr_t)&request),
		uverbs_attr(UVERBS_ATTR_UHW_OUT, sizeof(queue->key), (uintptr_t)&queue->key),
	};
	int n = 7;

	if (kind == QUEUE_CQ_VA) {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_VA, 8, (uintptr_t)addr);
		attrs[n++] = uverbs_attr(CREATE_CQ_BUFFER_LENGTH, 8, length);
	} else if (kind == QUEUE_CQ_UMEM) {
		attrs[n++] = uverbs_attr(CREATE_CQ_BUF_UMEM, sizeof(desc), (uintptr_t)&desc);
	}
	return uverbs_ioctl(context, RDMA_DRIVER_RXE, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs,
			    n, &queue->cq);
}
