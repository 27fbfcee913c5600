// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for linux/tracepoint.h. TRACE_EVENT() is a macro of C, and the kernel crate reaches only
 * tracepoints of the kernel proper. Linked into ib_peer_mem alone.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"

bool ext_trace_is_on(enum ext_trace_point point)
{
	switch (point) {
	case EXT_TRACE_REGISTER:
		return trace_peer_mem_register_enabled();
	case EXT_TRACE_DEREGISTER:
		return trace_peer_mem_deregister_enabled();
	case EXT_TRACE_INVALIDATE:
		return trace_peer_mem_invalidate_enabled();
	case EXT_TRACE_REVOKE:
		return trace_peer_mem_revoke_enabled();
	case EXT_TRACE_FENCE:
		return trace_peer_mem_fence_enabled();
	case EXT_TRACE_REJECT:
		return trace_peer_mem_reject_enabled();
	}
	return false;
}

void ext_trace(enum ext_trace_point point, const struct ext_trace_region *region,
	       const struct ext_trace_text *cause)
{
	switch (point) {
	case EXT_TRACE_REGISTER:
		trace_peer_mem_register(region);
		break;
	case EXT_TRACE_DEREGISTER:
		trace_peer_mem_deregister(region);
		break;
	case EXT_TRACE_INVALIDATE:
		trace_peer_mem_invalidate(region);
		break;
	case EXT_TRACE_REVOKE:
		trace_peer_mem_revoke(region);
		break;
	case EXT_TRACE_FENCE:
		trace_peer_mem_fence(region);
		break;
	case EXT_TRACE_REJECT:
		trace_peer_mem_reject(region, cause);
		break;
	}
}
