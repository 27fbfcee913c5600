// SPDX-License-Identifier: GPL-2.0

//! Peer memory for RDMA on an unmodified kernel: `ib_peer_mem.ko`.
//!
//! A peer memory client is a driver that owns memory, usually memory that the kernel cannot pin.
//! With this module a stock RDMA driver registers memory of clients by address, and memory that is
//! a part of a dma-buf. [`PeerMem`] holds everything that the module registers with the kernel.
//!
//! `LAYERS` lists the layers. A module uses only modules of the layers below its own.
//!
//! - [`hooks`]: the interposed verbs of a device; [`umem_provider`]: the hook on the functions of ib_core
//!   that pin user memory;
//! - [`abi`], [`callbacks`]: the C ABI, inbound and outbound;
//! - [`ioctl`]: `/dev/ib_peer_mem`; [`dmabuf_reg`]: `/dev/dmabuf_reg`; [`mod@debugfs`]: the list of
//!   devices, and the last rejections;
//! - [`dispatch`]: finds the client, or the dma-buf, that a range belongs to;
//! - [`registry`], [`client`]: the registered clients; [`adapters`], [`adapter`]: the RDMA devices;
//! - [`region`]: one acquired range, and the tasks that work on the range;
//! - [`imported`]: an MR on a dma-buf of another exporter; [`registered`]: what regions and imports
//!   have in common;
//! - [`backend`]: how a stock driver gets the addresses of a region;
//! - [`policy`]: when the clients are asked, and the ranges of a process that have names;
//! - [`records`]: counters, the list of regions, why memory was not registered, and which processes
//!   have lost MRs;
//! - [`data`]: data structures.
//!
//! Locks. No lock is held across a client's callback or a driver's operation, except
//! `FastReg::links` and `LoopbackQp::busy`, which may be held across operations on kernel-owned
//! queue pairs. Spin locks do not nest in each other. References are dropped after the lock is
//! released, except queue pairs, which are destroyed under `FastReg::links`.
//!
//! 1. `Registry::entries`, `adapters::LIST`, `rejections::LOG`, `revocations::LOG`, `Names::ranges`
//!    (mutexes): the lists of clients, of devices, of rejections, of revocations, and of the names of
//!    an address space; not nested in each other;
//! 2. `FastReg::links` (mutex): the queue pairs; then `LoopbackQp::busy` (mutex): one work request
//!    at a time;
//! 3. `Lifecycle::inner`, `Region::acquired`, `Region::mrs`, `Client::inflight`, `Map::entries`,
//!    `Hints::tree`, `Importer::known`, `per_mm::Spaces::shards` (spin locks, leaves).
//!
//! Documentation/locking.rst has the argument.

use kernel::prelude::*;

#[path = "../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings,
    ext,
    uapi, //
};

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
    _umem: umem_provider::Hook,
    #[pin]
    interposer: rdma::Registration,
    _adapters: adapters::Open,
    _registry: registry::Open,
    _rejections: rejections::Open,
    _revocations: revocations::Open,
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
                order::Order::read_parameter()?;
                named::read_parameter()?;
            },
            _named: named::open()?,
            _rejections: rejections::open()?,
            _revocations: revocations::open()?,
            _registry: registry::open()?,
            _adapters: adapters::open()?,
            _umem: umem_provider::Hook::place(text.as_ref().map_err(|e| *e)?.clone()),
            interposer <- rdma::Registration::new(c"ib_peer_mem", text?, hooks::add),
            debugfs <- debugfs::DebugfsDir::new(),
            _dmabuf_reg: dmabuf_reg::open(has_protocol?)?,
            control <- control::Registration::new(),
        })
    }
}
