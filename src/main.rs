// SPDX-License-Identifier: GPL-2.0

//! Peer memory for RDMA on an unmodified kernel.
//!
//! A module uses only modules of the layers below its own; `LAYERS` lists them.
//!
//! ```text
//!   verbs ──▶ hooks   clients ──▶ abi   ioctls ──▶ ioctl   debugfs
//!               │                  │                 │        │
//!               └──▶ dispatch ◀────│─────────────────┘        │
//!                    │      │      ▼                          ▼
//!                    │      └──▶ registry                  adapters
//!                    ▼              │                         │
//!                 region ◀──────────│──────────────────── adapter
//!                  │   │            │
//!                  │   └──▶ backend ──▶ rdma (drivers)
//!                  ▼          │     │
//!             lifecycle       ▼     ▼
//!                       callbacks ──▶ client
//! ```
//!
//! - [`abi`], [`callbacks`]: the C ABI, inbound and outbound;
//! - [`hooks`]: the interposed verbs; [`ioctl`], [`dmabuf_reg`]: `/dev/ib_peer_mem`, and the protocol
//!   of `/dev/dmabuf_reg`; [`mod@debugfs`]: the list of devices, and the last refusals ([`refusals`]);
//! - [`dispatch`]: finds the client that claims a range; [`named`]: ranges that are dma-bufs;
//! - [`registry`], [`client`]: the registered clients; [`adapters`], [`adapter`]: the RDMA devices;
//! - [`region`], [`lifecycle`]: one acquired range and the tasks that work on it;
//! - [`backend`]: how a stock driver gets the addresses.
//!
//! Locks. None is held across a client's callback or a driver's operation, except that
//! `FastReg::links` and `LoopbackQp::busy` may be held across operations on kernel-owned queue
//! pairs. No spin lock is nested in another. References leave a lock before they are dropped.
//!
//! 1. `Registry::entries`, `adapters::LIST`, `refusals::RING`, `Names::ranges` (mutexes): the lists of
//!    clients, of devices, of refusals, and of the names of an address space; not nested in each other;
//! 2. `FastReg::links` (mutex): the queue pairs; then `LoopbackQp::busy` (mutex): one work request
//!    at a time;
//! 3. `Lifecycle::inner`, `Region::acquired`, `Region::mrs`, `Client::gate`, `Map::entries`,
//!    `Hints::tree`, `per_mm::Spaces::shards` (spin locks, leaves).
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
mod debugfs;
mod dispatch;
mod dmabuf_reg;
mod hint;
mod hooks;
mod imported;
mod index;
mod ioctl;
mod lifecycle;
mod named;
mod order;
mod range;
mod refusals;
mod region;
mod registered;
mod registry;
mod stats;
mod umem;

use ext::{
    miscdev,
    rdma, //
};

module! {
    type: PeerMem,
    name: "ib_peer_mem",
    authors: ["The ib_peer_mem authors"],
    description: "Peer memory for RDMA on an unmodified kernel",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

/// The module. Dropped in this order: remove the hook on umems, remove the interposer from the devices,
/// wait for the calls in both, then close the lists.
#[pin_data]
struct PeerMem {
    #[pin]
    control: miscdev::Registration<ioctl::Ioctls>,
    _dmabuf_reg: dmabuf_reg::Open,
    #[pin]
    debugfs: debugfs::Folder,
    _umem: umem::Hook,
    #[pin]
    interposer: rdma::Registration<adapter::Adapter>,
    _adapters: adapters::Open,
    _registry: registry::Open,
    _refusals: refusals::Open,
    _named: named::Open,
}

impl kernel::InPlaceModule for PeerMem {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let code = rdma::Code::new();
        try_pin_init!(Self {
            _: {
                backend::Backend::check_parameter()?;
                order::Order::read_parameter()?;
                named::read_parameter()?;
            },
            _named: named::open()?,
            _refusals: refusals::open()?,
            _registry: registry::open()?,
            _adapters: adapters::open()?,
            _umem: umem::Hook::place(code.as_ref().map_err(|e| *e)?.share()),
            interposer <- rdma::Registration::new(c"ib_peer_mem", code?),
            debugfs <- debugfs::Folder::new(),
            _dmabuf_reg: dmabuf_reg::open()?,
            control <- miscdev::Registration::new(),
        })
    }
}
