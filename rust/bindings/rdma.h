/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads for rust/bindings.rs: kernel headers that kernel::bindings lacks. */
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "../helpers/dma_buf.h"
#include "../helpers/rdma.h"
