// SPDX-License-Identifier: GPL-2.0

//! PCI BARs as memory for processes and RDMA devices.
//!
//! A PCI driver binds the configured PCI functions, makes BARs P2PDMA memory, and creates a
//! character device for each BAR: `/dev/io_peer_mem/BDF/barN`. A peer memory client claims mappings
//! of the character devices for RDMA, and revokes the memory when the PCI function is removed.
//!
//! Layers, top to bottom:
//!
//! - [`driver`]: binds functions and creates the device nodes;
//! - [`mod@file`], [`dm`], [`nearest`]: the file operations;
//! - [`service`]: registers the client while there is memory to serve;
//! - [`client`]: the peer memory client;
//! - [`mapping`], [`other_bars`], [`functions`], [`unmapped`]: the memory behind a mapping of a process;
//! - [`bar`]: the allocations and tickets of a BAR;
//! - [`pending`]: the options of functions that are being bound;
//! - [`dm_abi`], [`options`], [`select`], [`zero`]: arguments of ioctls, module parameters, the choice
//!   of BARs, when memory is cleared.
//!
//! Functions may sleep, unless they say otherwise.

use kernel::prelude::*;

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client,
    prelude,
    uapi, //
};

mod bar;
mod client;
mod dm;
mod dm_abi;
mod driver;
mod file;
mod functions;
mod mapping;
mod nearest;
mod options;
mod other_bars;
mod pending;
mod select;
mod service;
mod unmapped;
mod zero;

use ext::base::{
    pci,
    pci_watch,
    snapshot,
    unmap_watch::QueuesOwner, //
};

module! {
    type: IoPeerMem,
    name: "io_peer_mem",
    authors: ["The ib_peer_mem authors"],
    description: "PCI BARs as memory for RDMA devices",
    license: "GPL",
}

#[pin_data]
struct IoPeerMem {
    // Drop order: the driver goes first, since unbound devices revoke memory through the client.
    #[pin]
    driver: pci::Registration<driver::BarDriver>,
    _devices: KVec<pci::Override>,
    /// Makes `watch` known to the driver.
    _functions: snapshot::Published<functions::Functions>,
    _pending: snapshot::Published<pending::Pending>,
    /// The peer memory client, while there is memory to serve.
    _service: service::Open,
    #[pin]
    watch: pci_watch::Registration<functions::Functions>,
    _queues: QueuesOwner,
}

impl kernel::InPlaceModule for IoPeerMem {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _queues: QueuesOwner::new(c"io_peer_mem")?,
            watch <- pci_watch::Registration::new(functions::Functions::new(_queues.queues())?),
            _service: service::Open::new(watch.watcher().clone())?,
            _functions: driver::FUNCTIONS.publish(watch.watcher().clone()),
            _pending: driver::PENDING.publish(pending::Pending::new()?),
            driver <- pci::Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _: { options::for_each_id(|vendor, device| driver.add_id(vendor, device))? },
            _devices: driver::bind_devices(&driver)?,
        })
    }
}
