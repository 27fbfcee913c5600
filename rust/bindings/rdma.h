/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: headers of the RDMA core, and the helpers with types of the RDMA core. */
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>
#include "../c/interpose.h"
#include "../helpers/compat_rdma.h"
