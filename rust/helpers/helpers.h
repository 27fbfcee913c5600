/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Short functions in C, in a file for each header of the kernel: for macros, which Rust cannot call, and
 * for fields and functions that the kernel crate does not have. bindgen makes wrappers of them and of
 * inline functions of the kernel, see rust/bindings/bindings.mk.
 */
#include "compat.h"
#include "completion.h"
#include "cred.h"
#include "device.h"
#include "dma_resv.h"
#include "fs.h"
#include "memcontrol.h"
#include "mm.h"
#include "pci.h"
#include "ratelimit.h"
#include "rcupdate.h"
#include "scatterlist.h"
#include "uaccess.h"
