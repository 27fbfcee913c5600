// SPDX-License-Identifier: GPL-2.0

//! The peer memory client: claims what the calling process has mapped from our BARs.

use crate::{
    bar::{
        Bar,
        Listing, //
    },
    dev_err_limited,
    dma_table::Table,
    file,
    peer_client::{
        Client,
        Memory,
        Range,
        Slot,
        Ticket, //
    },
    pinned, //
};
use kernel::{
    device,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// The client.
pub(crate) struct BarClient;

/// Where its registration is kept.
static SLOT: Slot<BarClient> = Slot::new();

/// A range that starts in a mapping of a BAR.
pub(crate) struct Region {
    /// The BAR.
    bar: Arc<Bar>,
}

/// Pages of a BAR that an adapter uses.
pub(crate) struct BarMemory {
    // Dropped in this order: once a ticket is off the list, the pages are not pinned any more.
    /// The pages.
    table: pinned::PinnedTable,
    /// Keeps the ticket on the BAR's list.
    _listing: Listing,
}

impl Memory for BarMemory {
    fn table(&self) -> &Table {
        self.table.table()
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        self.table.map(dev)
    }

    fn unmap(&mut self) {
        self.table.unmap();
    }
}

impl Client for BarClient {
    const NAME: &'static CStr = c"io_peer_mem";
    const VERSION: &'static CStr = c"1.0";

    type Region = Region;
    type Memory = BarMemory;

    fn slot() -> &'static Slot<Self> {
        &SLOT
    }

    fn acquire(range: Range) -> Result<Option<Region>> {
        // Only the caller's own address space is looked at, so a mapping that another process has
        // at the same address is never claimed.
        Ok(file::find(range.addr).map(|found| Region {
            bar: found.data.bar().clone(),
        }))
    }

    fn get_pages(region: &Region, range: Range, write: bool, ticket: Ticket) -> Result<BarMemory> {
        let bar = &region.bar;
        // Before the pages are taken: so that whoever revokes either keeps us from taking them, or
        // waits until this registration is done, and takes them back.
        let listing = Bar::list(bar, ticket).inspect_err(|e| refused(bar, range, write, *e))?;
        let table = pin(bar, range, write).inspect_err(|e| refused(bar, range, write, *e))?;
        Ok(BarMemory {
            table,
            _listing: listing,
        })
    }
}

/// Says why `range` was not given.
fn refused(bar: &Bar, range: Range, write: bool, e: Error) {
    let why = match (e, write) {
        (EFAULT, false) => " (not all of it is mapped from this BAR)",
        (EFAULT, true) => " (not all of it is mapped from this BAR and writable)",
        (ENODEV, _) => " (the device is gone)",
        _ => "",
    };
    dev_err_limited!(
        bar.dev,
        "BAR {}: cannot register {:#x}, {} bytes: {:?}{}\n",
        bar.index,
        range.addr,
        range.size,
        e,
        why
    );
}

/// Pins the pages of `range`, which have to be pages of `bar`; for writing where `write`, so that a
/// mapping that may only be read never becomes writable.
fn pin(bar: &Bar, range: Range, write: bool) -> Result<pinned::PinnedTable> {
    let start = range.addr - range.addr % PAGE_SIZE;
    let bytes = range.addr - start + range.size;
    let pages = pinned::Pages::pin(start, bytes.div_ceil(PAGE_SIZE), write)?;
    // It may run on into memory that this BAR's going away does not take back.
    if !pages.all_within(&bar.memory.phys()) {
        return Err(EFAULT);
    }
    pages.into_table()
}
