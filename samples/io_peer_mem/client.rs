// SPDX-License-Identifier: GPL-2.0

//! The peer memory client: claims mappings of the calling process that contain BARs of this driver,
//! or memory of other functions (see [`Kind`]).
//!
//! [`BarClient`] implements the callbacks of the client. [`BarMemory`] is the memory of one memory
//! region, and keeps the ticket of the region with the owner of the BAR.

use crate::{
    bar::Allocation,
    ext::{
        base::{
            device::name as device_name,
            mm,
            pci::BarRange,
            pfnmap::{
                self,
                Source, //
            },
            pinned,
            sg::{
                Owned,
                PageTable,
                Table, //
            },
            unmap_watch::Watched,
            vma::Found, //
        },
        p2pdma::{
            self,
            memcg,
            mmio_table::MmioTable,
            PageRefs, //
        }, //
    },
    functions::Functions,
    mapping,
    other_bars::Kind,
    peer_client::{
        Client,
        Memory,
        Ticket,
        TicketGuard,
        Tickets,
        VaRange, //
    },
    prelude::*,
    unmapped::Unmapped, //
};
use kernel::device;

/// How often a registration begins again because its mapping has changed.
const CHANGES: usize = 3;

/// Kernel memory that a memory region may need, without the memory for lists of scattered pages.
const HEADROOM: usize = 8192;

pub(crate) struct BarClient;

crate::peer_client_slot!(BarClient);

/// The BAR that memory belongs to, for log messages.
enum Origin {
    Own(Arc<Allocation>),
    /// A BAR of another driver, or of no driver.
    Foreign(BarRange),
}

impl Origin {
    fn bar_range(&self) -> &BarRange {
        match self {
            Self::Own(allocation) => allocation.bar().memory().bar_range(),
            Self::Foreign(bar_range) => bar_range,
        }
    }
}

pub(crate) enum Region {
    /// The BAR belongs to this driver: the mapping of the first page.
    Own(Found<Allocation>),
    /// The BAR belongs to another driver, or to no driver.
    Foreign(Kind, BarRange),
}

impl Region {
    fn origin(&self) -> Origin {
        match self {
            Self::Own(found) => Origin::Own(found.data.clone()),
            Self::Foreign(_, bar_range) => Origin::Foreign(bar_range.clone()),
        }
    }
}

/// The table of a memory region, and the object that keeps the memory in place.
enum Backing {
    /// Pages of this driver. The pages stay allocated.
    Own(PageTable<PageRefs>),
    /// Pinned struct pages of another driver.
    Pages(PageTable<pinned::Pages>),
    /// Physical addresses without struct pages. Only the ticket and the watch of the mapping keep the addresses
    /// valid.
    Mmio(MmioTable),
}

/// Memory of a BAR that an RDMA device uses.
pub(crate) struct BarMemory {
    // Drop order: the memory is released before the ticket is removed.
    backing: Backing,
    watch: Option<Watched<Unmapped>>,
    origin: Origin,
    /// Keeps the ticket with the owner of the BAR.
    _ticket: TicketGuard,
}

impl Memory for BarMemory {
    fn table(&self) -> &Table<Owned> {
        match &self.backing {
            Backing::Own(table) => table.table(),
            Backing::Pages(table) => table.table(),
            Backing::Mmio(table) => table.table(),
        }
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        if let Some(watch) = &self.watch {
            watch.user().set_device(dev);
        }
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
        let bar_range = kind.bar_range(mm, range.addr());
        Ok(bar_range.map(|bar_range| Region::Foreign(kind, bar_range)))
    }

    fn get_pages(
        functions: &Arc<Functions>,
        region: &Region,
        range: VaRange,
        write: bool,
        ticket: Ticket,
    ) -> Result<BarMemory> {
        let memory = match region {
            Region::Foreign(Kind::Mmio(source), bar_range) => {
                let pin = || pin_watched(functions, region, bar_range, range, write, &ticket);
                pin_mmio(*source, range, write, pin)
            }
            _ => pin_all(functions, region, range, write, ticket),
        };
        // `inspect_err` would move the memory, which is large, once more.
        if let Err(e) = &memory {
            log_rejected(region, range, write, *e);
        }
        memory
    }
}

fn pin_all(
    functions: &Functions,
    region: &Region,
    range: VaRange,
    write: bool,
    ticket: Ticket,
) -> Result<BarMemory> {
    memcg::check_headroom(HEADROOM)?;
    let pages = pages_of(range)?;
    let task = current!();
    // The process may keep the `mmap_lock` for any time, and from the addition of the ticket on an
    // invalidation waits for this registration. So take the lock before the addition: nothing below
    // waits for the process.
    let mm = match region {
        Region::Own(found) if pages.end <= found.end => None,
        _ => Some(mm::Locked::of(task).ok_or(EFAULT)?),
    };
    // Before the pages are pinned; see `Tickets`.
    let guard = match region {
        Region::Own(found) => Tickets::add(found.data.bar().tickets(), ticket)?,
        Region::Foreign(_, bar_range) => functions.add(bar_range.dev(), ticket)?,
    };
    let backing = match region {
        Region::Own(found) => Backing::Own(pin_own(found, mm.as_ref(), pages, write)?),
        Region::Foreign(kind, bar_range) => {
            let mm = mm.as_ref().ok_or(EFAULT)?;
            match kind {
                Kind::Pages => {
                    kind.check(mm, pages.clone())?;
                    Backing::Pages(pin(bar_range, mm, pages, write)?)
                }
                Kind::Mmio(source) => Backing::Mmio(look_up(bar_range, mm, pages, *source, write)?),
            }
        }
    };
    Ok(BarMemory {
        backing,
        watch: None,
        origin: region.origin(),
        _ticket: guard,
    })
}

/// As [`pin_all`], of memory in `bar_range` whose mapping is watched. Returns `EAGAIN` if the mapping has changed
/// meanwhile.
fn pin_watched(
    functions: &Functions,
    region: &Region,
    bar_range: &BarRange,
    range: VaRange,
    write: bool,
    ticket: &Ticket,
) -> Result<BarMemory> {
    let user = Unmapped::new(ticket.clone(), bar_range.clone(), range.len());
    let task = current!();
    let mm = task.mm().ok_or(EFAULT)?;
    // Dropped after the memory, which has the ticket: that waits for tasks that unmap.
    let watch = Watched::new(mm, pages_of(range)?, functions.queues(), user)?;
    let sequence = watch.begin();
    let mut memory = pin_all(functions, region, range, write, ticket.clone())?;
    watch.arm(sequence)?;
    memory.watch = Some(watch);
    Ok(memory)
}

/// Calls `pin`, and again after a page fault for what the process has not accessed yet, and if the mapping has
/// changed.
fn pin_mmio(
    source: Source,
    range: VaRange,
    write: bool,
    pin: impl Fn() -> Result<BarMemory>,
) -> Result<BarMemory> {
    let mut memory = pin();
    if memory.as_ref().err() == Some(&EFAULT) {
        fault_in(range, source, write)?;
        memory = pin();
    }
    for _ in 0..CHANGES {
        if memory.as_ref().err() != Some(&EAGAIN) {
            break;
        }
        memory = pin();
    }
    memory
}

/// Logs a message about memory of `origin`. The message names this module even if another driver
/// owns the BAR.
fn log(origin: &Origin, message: fmt::Arguments<'_>) {
    let (dev, index) = (origin.bar_range().dev(), origin.bar_range().index());
    match origin {
        Origin::Own(_) => dev_err_limited!(dev, "BAR {}: {}\n", index, message),
        Origin::Foreign(_) => {
            let name = device_name(dev.as_ref())
                .to_str()
                .unwrap_or("unnamed function");
            pr_warn_limited!("{}: BAR {}: {}\n", name, index, message);
        }
    }
}

/// Logs why `get_pages` failed for `range`. The message omits the user's address: the core's list
/// of rejections has the address, for root.
fn log_rejected(region: &Region, range: VaRange, write: bool, e: Error) {
    if e == ERESTARTNOINTR {
        return;
    }
    let own = matches!(region, Region::Own(_));
    let why = match (e, write) {
        (EFAULT, false) => " (not all of it is mapped from this BAR)",
        (EFAULT, true) => " (not all of it is mapped from this BAR and writable)",
        (EAGAIN, _) => " (the mapping has changed meanwhile; try again)",
        (EPERM, _) => " (doorbells of an RDMA device, or an interrupt table)",
        (EBUSY, _) => " (root has stopped registrations of this function: iopm drain)",
        (ENODEV, _) if own => " (the device was removed)",
        (ENODEV, _) => " (the device is being removed or changes drivers; try again)",
        _ => "",
    };
    log(
        &region.origin(),
        fmt!("cannot register {} bytes: {:?}{}", range.len(), e, why),
    );
}

fn log_unreachable(memory: &BarMemory, dev: &device::Device, e: Error) {
    let why = match p2pdma::distance(memory.origin.bar_range().dev(), dev) {
        Ok(_) => "the DMA API fails",
        Err(obstacle) => obstacle.as_str(),
    };
    log(
        &memory.origin,
        fmt!(
            "cannot be mapped for {}: {:?} ({})",
            device_name(dev).to_str().unwrap_or("unnamed device"),
            e,
            why
        ),
    );
}

fn pages_of(range: VaRange) -> Result<Range<usize>> {
    let start = range.addr() - range.addr() % PAGE_SIZE;
    let bytes = range.addr() - start + range.len();
    let bytes = bytes.div_ceil(PAGE_SIZE) * PAGE_SIZE;
    Ok(start..start.checked_add(bytes).ok_or(EFAULT)?)
}

/// Pins the pages that are mapped in `range`. The range begins in the mapping `first`; `mm` is
/// needed if the range continues after `first`. Returns `EFAULT` unless all pages are pages of the
/// same BAR, and mapped writable if `write`.
fn pin_own(
    first: &Found<Allocation>,
    mm: Option<&mm::Locked<'_>>,
    range: Range<usize>,
    write: bool,
) -> Result<PageTable<PageRefs>> {
    let mut pinned = PageRefs::new();
    let end = range.end;
    let mut at = pin_mapped(&mut pinned, first, range, write)?;
    while at < end {
        let next = mm.and_then(|mm| mapping::VM_OPS.find(mm, at));
        let next = next.ok_or(EFAULT)?;
        if !Arc::ptr_eq(next.data.bar(), first.data.bar()) {
            return Err(EFAULT);
        }
        at = pin_mapped(&mut pinned, &next, at..end, write)?;
    }
    PageTable::new(pinned)
}

/// Adds the pages at the beginning of `range` to `pinned`, up to the end of the mapping `found`,
/// which contains the first page. Returns the address of the next page, or `EFAULT` unless the
/// process may access the pages, and write if `write`.
fn pin_mapped(
    pinned: &mut PageRefs,
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
    match found.data.pin(pinned, pages) {
        // An access would fault as well.
        Err(ENODEV) => Err(EFAULT),
        result => result.map(|()| upto),
    }
}

/// Pins the pages of `range`. Returns `EFAULT` unless all pages are in `bar_range`, and writable if
/// `write`.
fn pin(
    bar_range: &BarRange,
    mm: &mm::Locked<'_>,
    range: Range<usize>,
    write: bool,
) -> Result<PageTable<pinned::Pages>> {
    let pages = pinned::Pages::pin(mm, range.start, range.len() / PAGE_SIZE, write)?;
    // The range may continue in memory that is not revoked together with the PCI function.
    if !pages.all_within(bar_range.phys()) {
        return Err(EFAULT);
    }
    PageTable::new(pages)
}

/// Faults in the pages of `range`, which the process has not accessed yet. Nothing waits for this registration
/// yet, so the driver of the mapping may take any time.
fn fault_in(range: VaRange, source: Source, write: bool) -> Result {
    let task = current!();
    let mut mm = mm::Locked::of(task).ok_or(EFAULT)?;
    let pages = pages_of(range)?;
    pfnmap::fault_in(&mut mm, pages.start, pages.len(), source, write)
}

/// Looks up the physical addresses of `range`. Returns `EFAULT` unless all addresses are in
/// `bar_range`, and mapped writable if `write`; `EPERM` if a driver's mapping has doorbells of an RDMA device or
/// the interrupt table of the function.
fn look_up(
    bar_range: &BarRange,
    mm: &mm::Locked<'_>,
    range: Range<usize>,
    source: Source,
    write: bool,
) -> Result<MmioTable> {
    let segments = pfnmap::physical(mm, range.start, range.len(), source, write)?;
    if source == Source::Driver {
        let mut of_interrupts = bar_range.msix().into_iter();
        let are_interrupts = of_interrupts.any(|part| segments.iter().any(|s| s.overlaps(&part)));
        if are_interrupts || bar_range.is_of_rdma_device() {
            return Err(EPERM);
        }
    }
    MmioTable::new(segments, bar_range)
}
