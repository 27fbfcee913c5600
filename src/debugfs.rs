// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/ib_peer_mem/`: the backend of each device (`devices`), the MRs of each device
//! on dma-bufs of other exporters (`dma_bufs`), the state of the hook on `ib_umem_get_desc()`
//! (`umem_hook`), why memory was not registered (`rejections`), which processes have lost MRs
//! (`revocations`), and the live regions and imports (`regions`).
//!
//! Tabs separate the columns.
//!
//! [`DebugfsDir`] is the core's directory, which exists while the module is loaded. A read of a
//! list may sleep, and holds the lock of the list.

use crate::{
    adapters,
    ext::rdma::UmemHook,
    prelude::*,
    records::{
        listing::Row,
        rejections,
        revocations, //
    },
    registry, //
};
use kernel::debugfs::{
    Dir,
    File, //
};

#[pin_data]
pub(crate) struct DebugfsDir {
    // Removed in this order.
    #[pin]
    devices: File<()>,
    #[pin]
    dma_bufs: File<()>,
    #[pin]
    umem: File<()>,
    #[pin]
    rejections: File<()>,
    #[pin]
    revocations: File<()>,
    #[pin]
    regions: File<()>,
    dir: Dir,
}

impl DebugfsDir {
    /// Creates the directory. Without debugfs this function does nothing.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            dir: Dir::new(c"ib_peer_mem"),
            regions <- dir.read_callback_file(c"regions", (), &|(), f| regions(f)),
            rejections <- dir.read_callback_file(c"rejections", (), &|(), f| rejections::print(f)),
            revocations <- dir.read_callback_file(c"revocations", (), &|(), f| revocations::print(f)),
            umem <- dir.read_callback_file(c"umem_hook", (), &|(), f| umem_hook(f)),
            dma_bufs <- dir.read_callback_file(c"dma_bufs", (), &|(), f| dma_bufs(f)),
            devices <- dir.read_callback_file(c"devices", (), &|(), f| devices(f)),
        })
    }
}

fn devices(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "device\tdriver\tbackend\tcan fence")?;
    adapters::try_for_each(|adapter| {
        let (dev, backend) = (&adapter.dev, &adapter.backend);
        writeln!(
            f,
            "{}\t{}\t{}\t{}",
            dev.name(),
            dev.driver(),
            backend.name(),
            backend.fence_word()
        )
    })
}

fn dma_bufs(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "device\tregistered\tlive\tlive bytes")?;
    adapters::try_for_each(|adapter| {
        let stats = adapter.imports.stats();
        writeln!(
            f,
            "{}\t{}\t{}\t{}",
            adapter.dev.name(),
            stats.made(),
            stats.live(),
            stats.live_bytes()
        )
    })
}

/// Prints the file `regions`: the regions of the clients, then the imports of the devices. Holds a
/// reference to one region at a time, and no lock while a region is printed, except the lock of the
/// list of devices. A region that comes or goes during the print may be missing.
fn regions(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    Row::print_heading(f)?;
    let clients = registry::clients();
    for client in clients.iter().flat_map(|clients| clients.iter()) {
        let mut next = Some(0);
        while let Some((ticket, region)) = next.and_then(|ticket| client.region_from(ticket)) {
            region.print(f)?;
            next = ticket.checked_add(1);
        }
    }
    adapters::try_for_each(|adapter| {
        let mut next = Some(0);
        while let Some((lkey, registered)) = next.and_then(|lkey| adapter.mrs.from(lkey)) {
            registered.print_import(f)?;
            next = lkey.checked_add(1);
        }
        Ok(())
    })
}

fn umem_hook(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match UmemHook::state() {
        Ok(()) => writeln!(f, "placed"),
        Err(e) if e == ENXIO => writeln!(f, "not placed: ib_core pins memory past it"),
        Err(e) => writeln!(f, "not placed: {e:?}"),
    }
}
