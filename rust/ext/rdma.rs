// SPDX-License-Identifier: GPL-2.0

//! RDMA devices, for a module that is neither a driver of the devices nor part of ib_core.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h).

mod fast_mr;
mod ib_device;
mod interpose;
pub mod key_filter;
mod mr;
mod ops;
mod qp;
mod quirks;
mod request;
mod self_test;
mod umem_hook;

pub use self::{
    fast_mr::{
        wait_for_software_copies,
        FastMr,
        FastRegKey, //
    },
    ib_device::{
        dma_is_off,
        Device,
        Name, //
    },
    interpose::{
        Dispatch,
        DispatchCell,
        Driver,
        Hooks,
        Original,
        Registration,
        Wanted, //
    },
    mr::{
        Access,
        Mr,
        Pd,
        UserMr, //
    },
    qp::LoopbackQp,
    request::{
        Change,
        Request,
        UcontextId, //
    },
    self_test::self_test,
    umem_hook::{
        bypass,
        UmemHook,
        UmemProvider, //
    },
};
