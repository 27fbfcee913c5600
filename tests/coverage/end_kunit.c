// SPDX-License-Identifier: GPL-2.0
/* Linked last into peer_mem_kunit. */
#include "mark.h"

COUNTERS_MARK(peer_mem_kunit_counters_end);
