// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for linux/tracepoint.h. TRACE_EVENT() is a macro of C, and the kernel crate reaches only
 * tracepoints of the kernel proper. Linked into ib_peer_mem alone.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"

#define FOR_EACH_REGION_EVENT(f) \
	f(REGISTER, register) f(DEREGISTER, deregister) f(INVALIDATE, invalidate) f(REVOKE, revoke) f(FENCE, fence)

bool ext_trace_is_on(enum ext_trace_point point)
{
#define IS_ON(NAME, name)		\
	case EXT_TRACE_##NAME:		\
		return trace_peer_mem_##name##_enabled();
	switch (point) {
	FOR_EACH_REGION_EVENT(IS_ON)
	IS_ON(REJECT, reject)
	}
	return false;
}

void ext_trace(enum ext_trace_point point, const struct ext_trace_region *region,
	       const struct ext_trace_text *cause)
{
#define RECORD(NAME, name)		\
	case EXT_TRACE_##NAME:		\
		trace_peer_mem_##name(region);	\
		break;
	switch (point) {
	FOR_EACH_REGION_EVENT(RECORD)
	case EXT_TRACE_REJECT:
		trace_peer_mem_reject(region, cause);
		break;
	}
}
