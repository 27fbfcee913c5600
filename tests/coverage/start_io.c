// SPDX-License-Identifier: GPL-2.0
/* Linked first into io_peer_mem. */
#include "mark.h"

COUNTERS_MARK(io_peer_mem_counters_start);
