// SPDX-License-Identifier: GPL-2.0
#define BY_SYMBOL
#include "replica.c"
