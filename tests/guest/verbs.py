# SPDX-License-Identifier: GPL-2.0
"""The functions of samples/verbs, by ctypes; a failure ends the program, as in C."""

from ctypes import POINTER, c_char_p

from calls import *

Rdma = structure(context=c_void_p, pd=c_void_p, gid_index=c_int)
Mr = structure(context=c_void_p, pd=c_void_p, addr=c_void_p, length=c_size_t, handle=u32, lkey=u32, rkey=u32)
Pair = structure(cq=c_void_p, near=c_void_p, far=c_void_p)
# IBV_WR_*, IBV_WC_REM_ACCESS_ERR, ACCESS_ALL of verbs.h, IBV_ACCESS_ON_DEMAND
WRITE, READ, COMPARE_AND_SWAP, FETCH_AND_ADD = 0, 4, 5, 6
DENIED, ACCESS_ALL, ON_DEMAND = 10, 15, 64
MR, PAIR, TRANSFER = POINTER(Mr), POINTER(Pair), (c_int, POINTER(Mr), c_void_p, POINTER(Mr), c_void_p, u32)
VERBS = library(
    '/mnt/programs/libtests.so', rdma_open=(Rdma, c_char_p), rdma_register=(MR, POINTER(Rdma), c_void_p, c_size_t),
    rdma_deregister=(None, MR), pair_make=(Pair, POINTER(Rdma)), pair_free=(None, PAIR), pair_rw=(c_int, PAIR, *TRANSFER),
    pair_must_rw=(None, PAIR, *TRANSFER), pair_must_atomic=(u64, PAIR, c_int, MR, MR, u64, u64, u64),
    ibv_reg_mr=(MR, c_void_p, c_void_p, c_size_t, c_int), ibv_dereg_mr=(c_int, MR))
