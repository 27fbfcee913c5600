// SPDX-License-Identifier: GPL-2.0

//! Peer memory for RDMA on an unmodified kernel.
//!
//! ```text
//!   clients ──▶ abi ──▶ registry ──▶ region ──▶ attach ──▶ rdma (drivers)
//!                          ▲           │
//!   verbs ──▶ rdma ──▶ adapter         └──▶ callbacks ──▶ clients
//!   ioctl ──▶ export
//! ```
//!
//! - [`abi`], [`callbacks`]: the C ABI, inbound and outbound;
//! - [`adapter`]: one RDMA device, with our functions in its operations;
//! - [`registry`], [`client`]: who is there, and who is asked in which order;
//! - [`region`], [`lifecycle`]: one acquired range and who may do what with it when;
//! - [`attach`]: how a stock driver takes the addresses;
//! - [`mod@export`]: memory for other importers than the verbs, as a dma-buf;
//! - [`devices`]: what is chosen for each device, for people to read.
//!
//! Locks. None is held across a client's callback or a driver's operation, except that the two
//! mutexes below may be held across operations on queue pairs of our own. None of the spin locks
//! is nested in another.
//!
//! 1. `Registry::entries`, `Registry::adapters` (mutexes): the lists of clients and of devices
//!    change; not nested in each other;
//! 2. `FastReg::links` (mutex): queue pairs come and go; then `LoopbackQp::busy` (mutex): one
//!    work request at a time;
//! 3. `Lifecycle::state`, `Region::acquired`, `Region::mr`, `Client::gate`, `Client::tickets`,
//!    `Adapter::regions`, `Hints::tree`, `LoopbackQp::status` (spin locks, leaves).
//!
//! Documentation/locking.rst has the argument.

use kernel::prelude::*;

#[path = "../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings,
    ext, //
};

mod abi;
mod adapter;
mod attach;
mod callbacks;
mod client;
mod devices;
mod export;
mod hint;
mod lifecycle;
mod range;
mod region;
mod registry;
mod stats;

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

/// The module. Dropped in this order: leave the devices, then close the registry.
#[pin_data]
struct PeerMem {
    #[pin]
    control: miscdev::Registration<export::Ioctls>,
    #[pin]
    devices: devices::Devices,
    #[pin]
    interposer: rdma::Registration<adapter::Adapter>,
    _registry: registry::Open,
}

impl kernel::InPlaceModule for PeerMem {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: { attach::Backend::check_choice()? },
            _registry: registry::Registry::open()?,
            interposer <- rdma::Registration::new(c"ib_peer_mem"),
            devices <- devices::Devices::new(),
            control <- miscdev::Registration::new(),
        })
    }
}
