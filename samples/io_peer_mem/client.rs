// SPDX-License-Identifier: GPL-2.0

//! The peer memory client: claims what the calling process has mapped from our BARs, and memory of
//! other functions that it has mapped; see [`Kind`].

use crate::{
    bar::{
        self,
        Bar, //
    },
    dev_err_limited,
    ext::{
        dma_table::Table,
        mmio_table::MmioTable,
        p2pdma,
        pci::Window,
        pfnmap,
        pinned::{
            self,
            PinnedTable, //
        }, //
    },
    file,
    foreign::Kind,
    functions::{
        self,
        Functions, //
    },
    peer_client::{
        Client,
        Memory,
        Range,
        Ticket, //
    },
    pr_warn_limited, //
};
use kernel::{
    device,
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// The client.
pub(crate) struct BarClient;

crate::peer_client_slot!(BarClient);

/// A range that starts in memory of a BAR.
pub(crate) struct Region {
    /// The BAR, of whatever function.
    window: Window,
    /// Whose it is.
    owner: Owner,
}

/// Whose memory it is.
pub(crate) enum Owner {
    /// Ours.
    Us(Arc<Bar>),
    /// Of another driver, or of none.
    Other(Kind),
}

/// Keeps a ticket where it is found when the memory has to be taken back.
pub(crate) enum Listing {
    /// On our BAR.
    Bar { _listing: bar::Listing },
    /// With the functions of others.
    Function { _listing: functions::Listing },
}

/// What an adapter is given.
enum Given {
    /// Pages that are pinned.
    Pages(PinnedTable),
    /// Addresses.
    Mmio(MmioTable),
}

/// Memory of a BAR that an adapter uses.
pub(crate) struct BarMemory {
    // Dropped in this order: once a ticket is off the list, nothing is pinned any more.
    /// The memory.
    given: Given,
    /// Keeps the ticket.
    listing: Listing,
    /// Where it is.
    window: Window,
}

impl Memory for BarMemory {
    fn table(&self) -> &Table {
        match &self.given {
            Given::Pages(table) => table.table(),
            Given::Mmio(table) => table.table(),
        }
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        match &mut self.given {
            Given::Pages(table) => table.map(dev),
            Given::Mmio(table) => table.map(&self.window, dev),
        }
        .inspect_err(|e| unreachable(self, dev, *e))
    }

    fn unmap(&mut self) {
        match &mut self.given {
            Given::Pages(table) => table.unmap(),
            Given::Mmio(table) => table.unmap(),
        }
    }
}

impl Client for BarClient {
    const NAME: &'static CStr = c"io_peer_mem";
    const VERSION: &'static CStr = c"1.0";

    type Data = Arc<Functions>;
    type Region = Region;
    type Memory = BarMemory;

    fn acquire(_: &Arc<Functions>, range: Range) -> Result<Option<Region>> {
        // Only the caller's own address space is looked at, so a mapping that another process has
        // at the same address is never claimed.
        let kind = {
            let task = current!();
            let Some(mm) = task.mm() else {
                return Ok(None);
            };
            let mm = mm.mmap_read_lock();
            let Some(vma) = mm.vma_lookup(range.addr) else {
                return Ok(None);
            };
            if let Some(found) = file::VM_OPS.behind(vma) {
                let bar = found.data.bar().clone();
                return Ok(Some(Region {
                    window: bar.window(),
                    owner: Owner::Us(bar),
                }));
            }
            match Kind::of(vma) {
                Some(kind) => kind,
                // All host memory ends here.
                None => return Ok(None),
            }
        };
        Ok(kind.window(range.addr).map(|window| Region {
            window,
            owner: Owner::Other(kind),
        }))
    }

    fn get_pages(
        functions: &Arc<Functions>,
        region: &Region,
        range: Range,
        write: bool,
        ticket: Ticket,
    ) -> Result<BarMemory> {
        let give = || {
            // Before anything is taken: so that whoever revokes either keeps us from taking it, or
            // waits until this registration is done, and takes it back.
            let listing = match &region.owner {
                Owner::Us(bar) => Listing::Bar {
                    _listing: Bar::list(bar, ticket)?,
                },
                Owner::Other(_) => Listing::Function {
                    _listing: Functions::list(functions, &region.window.dev, ticket)?,
                },
            };
            let given = match region.owner {
                Owner::Other(Kind::Mmio) => Given::Mmio(look_up(&region.window, range, write)?),
                _ => Given::Pages(pin(&region.window, range, write)?),
            };
            Ok(BarMemory {
                given,
                listing,
                window: region.window.clone(),
            })
        };
        give().inspect_err(|e| refused(region, range, write, *e))
    }
}

/// Says something about `window`, under our name also where the function has another driver.
fn complain(window: &Window, ours: bool, what: fmt::Arguments<'_>) {
    let (dev, index) = (&window.dev, window.index);
    if ours {
        dev_err_limited!(dev, "BAR {}: {}\n", index, what);
    } else {
        let name = dev.as_ref().name().to_str().unwrap_or("a function");
        pr_warn_limited!("{}: BAR {}: {}\n", name, index, what);
    }
}

/// Says why `range` was not given.
fn refused(region: &Region, range: Range, write: bool, e: Error) {
    let ours = matches!(region.owner, Owner::Us(_));
    let why = match (e, write) {
        (EFAULT, false) => " (not all of it is mapped from this BAR)",
        (EFAULT, true) => " (not all of it is mapped from this BAR and writable)",
        (ENODEV, _) if ours => " (the device is gone)",
        (ENODEV, _) => " (the device is going, or changes drivers)",
        _ => "",
    };
    complain(
        &region.window,
        ours,
        fmt!(
            "cannot register {:#x}, {} bytes: {:?}{}",
            range.addr,
            range.size,
            e,
            why
        ),
    );
}

/// Says why `dev` was not given addresses.
fn unreachable(memory: &BarMemory, dev: &device::Device, e: Error) {
    let why = match p2pdma::distance(&memory.window.dev, dev) {
        Ok(_) => "the DMA API refuses",
        Err(obstacle) => obstacle.as_str(),
    };
    complain(
        &memory.window,
        matches!(memory.listing, Listing::Bar { .. }),
        fmt!(
            "cannot be mapped for {}: {:?} ({})",
            dev.name().to_str().unwrap_or("an adapter"),
            e,
            why
        ),
    );
}

/// The whole pages that `range` touches: where they start, and how many bytes they are.
fn pages_of(range: Range) -> (usize, usize) {
    let start = range.addr - range.addr % PAGE_SIZE;
    let bytes = range.addr - start + range.size;
    (start, bytes.div_ceil(PAGE_SIZE) * PAGE_SIZE)
}

/// Pins the pages of `range`, which have to be pages of `window`; for writing where `write`, so that
/// a mapping that may only be read never becomes writable.
fn pin(window: &Window, range: Range, write: bool) -> Result<PinnedTable> {
    let (start, bytes) = pages_of(range);
    let pages = pinned::Pages::pin(start, bytes / PAGE_SIZE, write)?;
    // It may run on into memory that this function's going away does not take back.
    if !pages.all_within(&window.phys) {
        return Err(EFAULT);
    }
    pages.into_table()
}

/// Looks up the addresses behind `range`, which have to be in `window`; only such as may be written
/// where `write`.
fn look_up(window: &Window, range: Range, write: bool) -> Result<MmioTable> {
    let (start, bytes) = pages_of(range);
    let task = current!();
    let mm = task.mm().ok_or(EFAULT)?.mmap_read_lock();
    MmioTable::new(pfnmap::physical(&mm, start, bytes, write)?, window)
}
