// SPDX-License-Identifier: GPL-2.0

//! PCI BARs as memory for RDMA, and for everybody else.
//!
//! A PCI driver that binds any function it is told to, makes its BARs P2PDMA memory, and gives each
//! a character device to map it: `/dev/io_peer_mem/BDF/barN`. As a peer memory client it lets RDMA
//! devices reach what a process has mapped, and takes it back when the device goes.

use kernel::prelude::*;

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client, //
};

mod bar;
mod client;
mod dm;
mod dm_abi;
mod driver;
mod file;
mod foreign;
mod functions;
mod nearest;
mod options;

use ext::{
    pci,
    pci_watch, //
};

module! {
    type: IoPeerMem,
    name: "io_peer_mem",
    authors: ["The ib_peer_mem authors"],
    description: "PCI BARs as memory for RDMA devices",
    license: "GPL",
}

/// The module.
#[pin_data]
struct IoPeerMem {
    // Dropped in this order: each device that is unbound takes its memory back by way of the
    // client.
    /// The PCI driver.
    #[pin]
    driver: pci::Registration<driver::BarDriver>,
    /// The peer memory client.
    _client: peer_client::Registration<client::BarClient>,
    /// What tells us that another driver's function goes.
    #[pin]
    watch: pci_watch::Registration<functions::Functions>,
}

impl kernel::InPlaceModule for IoPeerMem {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            watch <- pci_watch::Registration::new(functions::Functions::new()?),
            _client: peer_client::Registration::new(watch.watcher().clone())
                .inspect_err(|e| pr_err!("not registered as a peer memory client: {:?}\n", e))?,
            driver <- pci::Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _: { options::for_each_id(|vendor, device| driver.add_id(vendor, device))? },
        })
    }
}
