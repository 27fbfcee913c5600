// SPDX-License-Identifier: GPL-2.0

//! The peer memory client: claims mappings of the calling process that are BARs of this driver, or
//! memory of other functions; see [`Kind`].

use crate::{
    bar::Allocation,
    dev_err_limited,
    ext::{
        dma_table::Table,
        memcg,
        mm,
        mmio_table::MmioTable,
        p2pdma::{
            self,
            Held, //
        },
        pci::Window,
        pfnmap,
        pinned,
        run_table::RunTable,
        vma::Found, //
    },
    foreign::Kind,
    functions::Functions,
    mapping,
    peer_client::{
        Client,
        Memory,
        Ticket,
        TicketGuard,
        Tickets,
        VaRange, //
    },
    pr_warn_limited, //
};
use core::ops::Range;
use kernel::{
    device,
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Kernel memory that a memory region may take, without that for runs of scattered pages.
const ROOM: usize = 8192;

/// The client.
pub(crate) struct BarClient;

crate::peer_client_slot!(BarClient);

/// What memory is of, for the log.
enum Origin {
    /// A BAR of this driver.
    Own(Arc<Allocation>),
    /// A BAR of another driver, or of no driver.
    Foreign(Window),
}

impl Origin {
    /// Returns the BAR.
    fn window(&self) -> &Window {
        match self {
            Self::Own(allocation) => allocation.bar().memory().window(),
            Self::Foreign(window) => window,
        }
    }
}

/// A range that starts in a BAR.
pub(crate) enum Region {
    /// The BAR is one of this driver's: the mapping of the first page.
    Own(Found<Allocation>),
    /// The BAR is another driver's, or no driver's.
    Foreign(Kind, Window),
}

impl Region {
    /// Returns what the memory is of.
    fn origin(&self) -> Origin {
        match self {
            Self::Own(found) => Origin::Own(found.data.clone()),
            Self::Foreign(_, window) => Origin::Foreign(window.clone()),
        }
    }
}

/// The table of a memory region, and the object that keeps its memory in place.
enum Backing {
    /// Pages of this driver, which stay allocated.
    Own(RunTable<Held>),
    /// Pinned struct pages of another driver.
    Pages(RunTable<pinned::Pages>),
    /// Physical addresses without struct pages. Only the ticket keeps them valid.
    Mmio(MmioTable),
}

/// Memory of a BAR that an RDMA device uses.
pub(crate) struct BarMemory {
    // Drop order: when the ticket is removed, the memory is released.
    /// The memory.
    backing: Backing,
    /// What the memory is of.
    origin: Origin,
    /// Keeps the ticket with the owner of the BAR.
    _ticket: TicketGuard,
}

impl Memory for BarMemory {
    fn table(&self) -> &Table {
        match &self.backing {
            Backing::Own(table) => table.table(),
            Backing::Pages(table) => table.table(),
            Backing::Mmio(table) => table.table(),
        }
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        match &mut self.backing {
            Backing::Own(table) => table.map(dev),
            Backing::Pages(table) => table.map(dev),
            Backing::Mmio(table) => table.map(dev),
        }
        .inspect_err(|e| log_unreachable(self, dev, *e))
    }

    fn unmap(&mut self) {
        match &mut self.backing {
            Backing::Own(table) => table.unmap(),
            Backing::Pages(table) => table.unmap(),
            Backing::Mmio(table) => table.unmap(),
        }
    }
}

impl Client for BarClient {
    const NAME: &'static CStr = c"io_peer_mem";
    const VERSION: &'static CStr = c"1.0";

    type Data = Arc<Functions>;
    type Region = Region;
    type Memory = BarMemory;

    fn acquire(_: &Arc<Functions>, range: VaRange) -> Result<Option<Region>> {
        // Only the address space of the caller counts: a mapping of another process at the same
        // address is not claimed.
        let task = current!();
        let Some(mm) = mm::Locked::of(task) else {
            return Ok(None);
        };
        let Some(vma) = mm.vma_lookup(range.addr()) else {
            return Ok(None);
        };
        if let Some(found) = mapping::VM_OPS.behind(vma) {
            return Ok(Some(Region::Own(found)));
        }
        let Some(kind) = Kind::of(vma) else {
            // Host memory ends here.
            return Ok(None);
        };
        let window = kind.window(mm, range.addr());
        Ok(window.map(|window| Region::Foreign(kind, window)))
    }

    fn get_pages(
        functions: &Arc<Functions>,
        region: &Region,
        range: VaRange,
        write: bool,
        ticket: Ticket,
    ) -> Result<BarMemory> {
        let pin_all = || {
            memcg::check_room(ROOM)?;
            let pages = pages_of(range)?;
            // Before the ticket is added: from then on an invalidation waits, and the process may
            // keep the lock as long as it likes. Below nothing waits for the process.
            let task = current!();
            let mm = match region {
                Region::Own(found) if pages.end <= found.end => None,
                _ => Some(mm::Locked::of(task).ok_or(EFAULT)?),
            };
            // Before the pages are pinned; see `Tickets`.
            let guard = match region {
                Region::Own(found) => Tickets::add(found.data.bar().tickets(), ticket)?,
                Region::Foreign(_, window) => functions.add(window.dev(), ticket)?,
            };
            let backing = match region {
                Region::Own(found) => Backing::Own(hold(found, mm.as_ref(), pages, write)?),
                Region::Foreign(kind, window) => {
                    let mm = mm.as_ref().ok_or(EFAULT)?;
                    kind.check(mm, pages.clone())?;
                    match kind {
                        Kind::Pages => Backing::Pages(pin(window, mm, pages, write)?),
                        Kind::Mmio => Backing::Mmio(look_up(window, mm, pages, write)?),
                    }
                }
            };
            Ok(BarMemory {
                backing,
                origin: region.origin(),
                _ticket: guard,
            })
        };
        pin_all().inspect_err(|e| log_refused(region, range, write, *e))
    }
}

/// Logs a message about memory of `origin`. The line names this module also if another driver owns the
/// BAR.
fn log(origin: &Origin, message: fmt::Arguments<'_>) {
    let (dev, index) = (origin.window().dev(), origin.window().index());
    match origin {
        Origin::Own(_) => dev_err_limited!(dev, "BAR {}: {}\n", index, message),
        Origin::Foreign(_) => {
            let name = dev.as_ref().name().to_str().unwrap_or("unnamed function");
            pr_warn_limited!("{}: BAR {}: {}\n", name, index, message);
        }
    }
}

/// Logs why `get_pages` failed for `range`, without the user's address: that is in the core's list of
/// refusals, for root.
fn log_refused(region: &Region, range: VaRange, write: bool, e: Error) {
    let own = matches!(region, Region::Own(_));
    let why = match (e, write) {
        (EFAULT, false) => " (not all of it is mapped from this BAR)",
        (EFAULT, true) => " (not all of it is mapped from this BAR and writable)",
        (ENODEV, _) if own => " (the device was removed)",
        (ENODEV, _) => " (the device is being removed or changes drivers; try again)",
        _ => "",
    };
    log(
        &region.origin(),
        fmt!("cannot register {} bytes: {:?}{}", range.size(), e, why),
    );
}

/// Logs why `memory` could not be mapped for `dev`.
fn log_unreachable(memory: &BarMemory, dev: &device::Device, e: Error) {
    let why = match p2pdma::distance(memory.origin.window().dev(), dev) {
        Ok(_) => "the DMA API fails",
        Err(obstacle) => obstacle.as_str(),
    };
    log(
        &memory.origin,
        fmt!(
            "cannot be mapped for {}: {:?} ({})",
            dev.name().to_str().unwrap_or("unnamed device"),
            e,
            why
        ),
    );
}

/// Returns the addresses of the whole pages of `range`.
fn pages_of(range: VaRange) -> Result<Range<usize>> {
    let start = range.addr() - range.addr() % PAGE_SIZE;
    let bytes = range.addr() - start + range.size();
    let bytes = bytes.div_ceil(PAGE_SIZE) * PAGE_SIZE;
    Ok(start..start.checked_add(bytes).ok_or(EFAULT)?)
}

/// Holds the pages that are mapped in `range`, which begins in the mapping `first`. `mm` is needed if
/// it goes on after that. Returns `EFAULT` unless all are pages of the same BAR, and mapped writable if
/// `write`.
fn hold(
    first: &Found<Allocation>,
    mm: Option<&mm::Locked<'_>>,
    range: Range<usize>,
    write: bool,
) -> Result<RunTable<Held>> {
    let mut held = Held::new();
    let end = range.end;
    let mut at = hold_mapped(&mut held, first, range, write)?;
    while at < end {
        let next = mm.and_then(|mm| mapping::VM_OPS.find(mm, at));
        let next = next.ok_or(EFAULT)?;
        if !Arc::ptr_eq(next.data.bar(), first.data.bar()) {
            return Err(EFAULT);
        }
        at = hold_mapped(&mut held, &next, at..end, write)?;
    }
    RunTable::new(held)
}

/// Adds the pages at the beginning of `range` to `held`, as far as the mapping `found` goes, which has
/// the first one. Returns the address of the next page, and `EFAULT` unless the process may access
/// them, and write if `write`.
fn hold_mapped(
    held: &mut Held,
    found: &Found<Allocation>,
    range: Range<usize>,
    write: bool,
) -> Result<usize> {
    if !found.allows(write) {
        return Err(EFAULT);
    }
    let first = found.offset(range.start) / PAGE_SIZE;
    let upto = found.end.min(range.end);
    let pages = first..first + (upto - range.start) / PAGE_SIZE;
    match found.data.hold(held, pages) {
        // An access would fault as well.
        Err(ENODEV) => Err(EFAULT),
        result => result.map(|()| upto),
    }
}

/// Pins the pages of `range`. Returns `EFAULT` unless all are pages of `window`, and writable if
/// `write`.
fn pin(
    window: &Window,
    mm: &mm::Locked<'_>,
    range: Range<usize>,
    write: bool,
) -> Result<RunTable<pinned::Pages>> {
    let pages = pinned::Pages::pin(mm, range.start, range.len() / PAGE_SIZE, write)?;
    // The range may continue in memory that is not revoked with this function.
    if !pages.all_within(window.phys()) {
        return Err(EFAULT);
    }
    RunTable::new(pages)
}

/// Looks up the physical addresses of `range`. Returns `EFAULT` unless all are in `window`, and
/// mapped writable if `write`.
fn look_up(
    window: &Window,
    mm: &mm::Locked<'_>,
    range: Range<usize>,
    write: bool,
) -> Result<MmioTable> {
    MmioTable::new(
        pfnmap::physical(mm, range.start, range.len(), write)?,
        window,
    )
}
