// SPDX-License-Identifier: GPL-2.0
/* Linked last into ib_peer_mem. */
#include "mark.h"

COUNTERS_MARK(ib_peer_mem_counters_end);
