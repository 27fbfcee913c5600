/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of ib_peer_mem: /sys/kernel/tracing/events/ib_peer_mem. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ib_peer_mem

#if !defined(EXT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define EXT_TRACE_H

#include <linux/tracepoint.h>

#include "logic.h"

/* @lkey is 0 without an MR, @device "-" without a device, @pid the process that has registered. */
DECLARE_EVENT_CLASS(peer_mem_region,
	TP_PROTO(const struct ext_trace_region *r),
	TP_ARGS(r),
	TP_STRUCT__entry(
		__string_len(client, r->client.text, r->client.len)
		__string_len(device, r->device.text, r->device.len)
		__field(u64, addr)
		__field(u64, length)
		__field(u64, duration_ns)
		__field(u32, lkey)
		__field(s32, pid)
		__field(s32, error)
	),
	TP_fast_assign(
		__assign_str(client);
		__assign_str(device);
		__entry->addr = r->addr;
		__entry->length = r->length;
		__entry->duration_ns = r->duration_ns;
		__entry->lkey = r->lkey;
		__entry->pid = r->pid;
		__entry->error = r->error;
	),
	TP_printk("client=%s device=%s lkey=0x%x addr=0x%llx length=%llu pid=%d duration_ns=%llu error=%d",
		  __get_str(client), __get_str(device), __entry->lkey, __entry->addr, __entry->length,
		  __entry->pid, __entry->duration_ns, __entry->error)
);

/* An MR or an export exists. The duration begins when the client has claimed the memory. */
DEFINE_EVENT(peer_mem_region, peer_mem_register,
	TP_PROTO(const struct ext_trace_region *r), TP_ARGS(r));
/* The user, or the driver, has deregistered; @error is that of the driver. */
DEFINE_EVENT(peer_mem_region, peer_mem_deregister,
	TP_PROTO(const struct ext_trace_region *r), TP_ARGS(r));
/* An invalidation by the client has returned. */
DEFINE_EVENT(peer_mem_region, peer_mem_invalidate,
	TP_PROTO(const struct ext_trace_region *r), TP_ARGS(r));
/* A region is fenced and torn down, for the client or for the removal of the device. */
DEFINE_EVENT(peer_mem_region, peer_mem_revoke,
	TP_PROTO(const struct ext_trace_region *r), TP_ARGS(r));
/* An attempt to fence has ended, with @error. */
DEFINE_EVENT(peer_mem_region, peer_mem_fence,
	TP_PROTO(const struct ext_trace_region *r), TP_ARGS(r));

/* Memory was not registered or exported. @error is 0 if another client may serve the memory. */
TRACE_EVENT(peer_mem_reject,
	TP_PROTO(const struct ext_trace_region *r, const struct ext_trace_text *cause),
	TP_ARGS(r, cause),
	TP_STRUCT__entry(
		__string_len(client, r->client.text, r->client.len)
		__string_len(device, r->device.text, r->device.len)
		__string_len(cause, cause->text, cause->len)
		__field(u64, addr)
		__field(u64, length)
		__field(s32, pid)
		__field(s32, error)
	),
	TP_fast_assign(
		__assign_str(client);
		__assign_str(device);
		__assign_str(cause);
		__entry->addr = r->addr;
		__entry->length = r->length;
		__entry->pid = r->pid;
		__entry->error = r->error;
	),
	TP_printk("client=%s device=%s addr=0x%llx length=%llu pid=%d error=%d cause=\"%s\"",
		  __get_str(client), __get_str(device), __entry->addr, __entry->length, __entry->pid,
		  __entry->error, __get_str(cause))
);

#endif

/* Must be outside the guard. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
