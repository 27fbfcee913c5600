// SPDX-License-Identifier: GPL-2.0

//! The client: the callbacks that the peer memory core calls.
//!
//! ```text
//!  acquire    claim a range             -> Region, dropped when the MR is gone
//!  get_pages  pin and describe it       -> PinnedPages, dropped when no device uses the pages
//!  map        DMA addresses for a device   only for adapters that have a DMA device
//!  unmap
//! ```
//!
//! No callback undoes `acquire` or `get_pages`: their results are dropped, exactly once and in order,
//! whatever ends the region: an error, the user, the death of the process, an invalidation, the
//! removal of the adapter, or the unloading of the module.

use crate::{
    ext::base::{
        ram::Part,
        sg::{
            Owned,
            PageTable,
            Table, //
        }, //
    },
    memory::{
        DeviceMemory,
        VM_OPS, //
    },
    peer_client::{
        self,
        Client,
        Ticket,
        TicketGuard,
        Tickets,
        VaRange, //
    },
    prelude::*, //
};
use kernel::{
    device,
    mm::virt::flags, //
};

/// The client. No value of this type exists: it names the callbacks.
pub(crate) struct RamClient;

// The slot holds the data of the registration for the core's callbacks. Once per client.
crate::peer_client_slot!(RamClient);

pub(crate) struct Region {
    /// The memory. The reference keeps it after the process unmaps it.
    memory: Arc<DeviceMemory>,
    pages: core::ops::Range<usize>,
    writable: bool,
}

/// Pages that a device may access.
pub(crate) struct PinnedPages {
    // Drop order: when `Tickets::wait_empty` returns, no table is left.
    /// The pages. A driver whose memory can move also keeps a pin or a reference here.
    table: PageTable<Part>,
    /// Keeps the ticket in the list of [`DeviceMemory::tickets`].
    _ticket: TicketGuard,
}

impl Client for RamClient {
    // Names the statistics, /sys/kernel/mm/memory_peers/peer_client_rust.
    const NAME: &'static CStr = c"peer_client_rust";
    const VERSION: &'static CStr = c"1.0";
    // RAM, which the driver of the device could pin without the client.
    const PINNABLE: bool = true;

    // The callbacks share no state: the mapping leads to the memory.
    type Data = ();
    type Region = Region;
    type Memory = PinnedPages;

    // Claims the range if the calling process has mapped all of it from this driver. Called for
    // registrations of any memory, so it must reject other memory quickly, by `None`, not an error.
    fn acquire((): &(), range: VaRange) -> Result<Option<Region>> {
        let task = current!();
        // A kernel thread has no address space.
        let Some(mm) = task.mm() else {
            return Ok(None);
        };
        // Holds the lock until the end of the statement. The result holds a reference on the memory.
        let Some(found) = VM_OPS.find(&mm.mmap_read_lock(), range.addr()) else {
            return Ok(None);
        };
        if range.len() > found.end - range.addr() {
            return Ok(None);
        }
        let start = found.offset(range.addr());
        Ok(Some(Region {
            pages: start / PAGE_SIZE..(start + range.len()).div_ceil(PAGE_SIZE),
            writable: found.flags & flags::WRITE != 0,
            memory: found.data,
        }))
    }

    // Pins the range until `PinnedPages` is dropped. ibv_reg_mr() fails with the error.
    //
    // Once the ticket is in the list, another task may use it. It must not be used in this call,
    // which it would wait for.
    fn get_pages(
        (): &(),
        region: &Region,
        _: VaRange,
        _: bool,
        ticket: Ticket,
    ) -> Result<PinnedPages> {
        // RDMA must not write memory that the process cannot write. Any MR may be written, whatever the
        // core says: cores differ in it.
        if !region.writable {
            return Err(EFAULT);
        }
        // The ticket comes before the pages: a concurrent invalidation makes `add` fail, or waits
        // for this registration and revokes it.
        let ticket = Tickets::add(region.memory.tickets(), ticket)?;
        Ok(PinnedPages {
            table: region.memory.table(region.pages.clone())?,
            _ticket: ticket,
        })
    }
}

impl peer_client::Memory for PinnedPages {
    fn table(&self) -> &Table<Owned> {
        self.table.table()
    }

    // Maps the pages for `dev`, the DMA device of the adapter. Not called for software adapters,
    // which use the struct pages.
    //
    // Must not take a lock that is held while a ticket is invalidated: that waits for this call.
    fn map(&mut self, dev: &device::Device) -> Result {
        self.table.map(dev)
    }

    // Unmaps the pages. The adapter is fenced: it does not use the DMA addresses any more.
    fn unmap(&mut self) {
        self.table.unmap();
    }
}
