// SPDX-License-Identifier: GPL-2.0

//! RDMA devices, for a module that is neither a driver of the devices nor part of ib_core.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h).

mod calls;
mod device;
pub mod dma_buf;
mod fast_mr;
mod interpose;
pub mod key_filter;
mod mr;
pub mod per_mm;
mod qp;
mod quirks;
mod request;
pub mod return_probe;
mod self_test;
pub mod task;
mod task_table;
pub mod trace;
mod umem_hook;
pub mod worker;

pub use self::{
    calls::TextRef,
    device::{
        dma_is_off,
        Device,
        Name, //
    },
    fast_mr::{
        drain_software_copies,
        wait_for_software_copies,
        FastMr,
        FastRegKey, //
    },
    interpose::{
        Dispatch,
        DispatchCell,
        Driver,
        Hooks,
        Original,
        Registration, //
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
