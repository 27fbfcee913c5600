// SPDX-License-Identifier: GPL-2.0

//! Peer memory for RDMA on an unmodified kernel: `ib_peer_mem.ko`.
//!
//! A peer memory client is a driver that owns memory, usually memory that the kernel cannot pin.
//! With this module a stock RDMA driver registers memory of clients by address, and memory that is
//! a part of a dma-buf. [`PeerMem`] holds everything that the module registers with the kernel.
//!
//! `LAYERS` lists the layers: a module uses only modules of the layers below its own.
//! Documentation/architecture.rst says what each module has, Documentation/locking.rst which locks
//! there are, and in which order they are taken.

use prelude::*;

#[path = "../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings,
    ext,
    uapi, //
};

/// What most modules use: of the abstractions, and of the lowest layer.
pub(crate) mod prelude {
    pub(crate) use crate::{
        data::range::VaRange,
        ext::{
            base::{
                compat::eopnotsupp,
                params,
                snapshot::{
                    Published,
                    Snapshot, //
                }, //
            },
            dma_buf::{
                Export,
                FenceBudget,
                OnDetach,
                Part, //
            },
            rdma::{
                Access,
                Device,
                Dispatch,
                Mr,
                Name,
                Original,
                Request,
                UcontextId,
                UserMr, //
            },
            task::trace::{
                Event,
                Point,
                Timer, //
            }, //
        },
        shared::prelude::*, //
    };
    pub(crate) use kernel::rbtree::RBTree;
}

mod abi;
mod adapter;
mod adapters;
mod backend;
mod callbacks;
mod client;
mod data;
mod debugfs;
mod dispatch;
mod dmabuf_reg;
mod hooks;
mod imported;
mod ioctl;
mod policy;
mod records;
mod region;
mod registered;
mod registry;
mod umem_provider;

use ext::{
    base::chardev::control,
    rdma,
    task, //
};
use policy::{
    named,
    order, //
};
use records::{
    recent,
    rejections,
    revocations, //
};

module! {
    type: PeerMem,
    name: "ib_peer_mem",
    authors: ["The ib_peer_mem authors"],
    description: "Peer memory for RDMA on an unmodified kernel",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

/// What the module has registered with the kernel. The fields drop in this order: the character
/// devices and debugfs; the hook on `ib_umem_get_desc()`; the interposer, which leaves the devices
/// and then waits for the calls in the hook and in the interposed verbs; the lists.
#[pin_data]
struct PeerMem {
    #[pin]
    control: control::Registration<ioctl::Ioctls>,
    _dmabuf_reg: dmabuf_reg::Open,
    #[pin]
    debugfs: debugfs::DebugfsDir,
    _umem: Option<rdma::UmemHook>,
    #[pin]
    interposer: rdma::Registration,
    _adapters: adapters::Open,
    _registry: registry::Open,
    _rejections: recent::Open<rejections::Entry>,
    _revocations: recent::Open<revocations::Entry>,
    _named: named::Open,
}

impl kernel::InPlaceModule for PeerMem {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let text = task::TextRef::new();
        let has_protocol = dmabuf_reg::read_parameter();
        try_pin_init!(Self {
            // Before anything is registered: a failure below is that of an allocation.
            _: {
                has_protocol?;
                backend::Backend::check_parameter()?;
                order::read_parameter()?;
                named::read_parameter()?;
            },
            _named: named::open()?,
            _rejections: rejections::LOG.open()?,
            _revocations: revocations::LOG.open()?,
            _registry: registry::open()?,
            _adapters: adapters::open()?,
            _umem: umem_provider::place(text.as_ref().map_err(|e| *e)?.clone()),
            interposer <- rdma::Registration::new(c"ib_peer_mem", text?, hooks::add),
            debugfs <- debugfs::DebugfsDir::new(),
            _dmabuf_reg: dmabuf_reg::open(has_protocol?)?,
            control <- control::Registration::new(),
        })
    }
}
