// SPDX-License-Identifier: GPL-2.0

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "uverbs.h"

int uverbs_command(struct ibv_context *context, void *cmd, size_t size, uint32_t number,
		   size_t response)
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

	if (uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_REREG_MR, sizeof(response)))
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

	return uverbs_command(context, &cmd, sizeof(cmd), IB_USER_VERBS_CMD_DEREG_MR, 0);
}

struct ib_uverbs_attr uverbs_attr(int id, size_t len, uint64_t data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id,
		.len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
}

int uverbs_ioctl(struct ibv_context *context, uint32_t driver, int object, int method,
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
