// SPDX-License-Identifier: GPL-2.0

//! RDMA devices as a kernel module that stands beside the drivers sees them.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h).

mod device;
mod fast_mr;
mod interpose;
mod qp;
mod request;

pub use self::{
    device::{
        Access,
        Device,
        Mr,
        Pd,
        UserMr, //
    },
    fast_mr::{
        drain_software_copies,
        FastMr,
        FastRegKey, //
    },
    interpose::{
        Hooks,
        Original,
        Registration,
        Rereg, //
    },
    qp::LoopbackQp,
    request::{
        Change,
        Request,
        UcontextId, //
    },
};
