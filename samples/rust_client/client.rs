// SPDX-License-Identifier: GPL-2.0

//! The client: what the peer memory core asks of a driver.
//!
//! ```text
//!  acquire    is this range yours?            -> Region, dropped when the MR is gone
//!  get_pages  keep it where it is, describe it -> Lent, dropped when the adapter is done
//!  map        an adapter's DMA addresses       only for adapters that have a DMA device
//!  unmap      no longer
//! ```
//!
//! There is no callback to undo `acquire` or `get_pages`: what these return is dropped. Whatever
//! fails wherever, and whoever ends the region (the user, the death of a process, an invalidation,
//! the removal of the adapter, the module's unloading), it is dropped once, and in order.

use crate::{
    ext::{
        dma_table::Table,
        ram::PagesTable, //
    },
    file,
    memory::{
        Listing,
        Memory, //
    },
    peer_client::{
        self,
        Client,
        Range,
        Ticket, //
    }, //
};
use kernel::{
    device,
    mm::virt::flags,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// The client. It is never made: it is a name for the callbacks.
pub(crate) struct RamClient;

// Where the core's callbacks find the registration; once for each client.
crate::peer_client_slot!(RamClient);

/// One range that is being registered, or is.
pub(crate) struct Region {
    /// The memory it is in. The reference keeps it, whatever the process does with its mapping.
    memory: Arc<Memory>,
    /// Its pages: the first, and the first that is not.
    pages: core::ops::Range<usize>,
    /// Whether the process may write to it.
    writable: bool,
}

/// Pages that an adapter may use.
pub(crate) struct Lent {
    // Dropped in this order: whoever waits for the memory to come back finds the listing gone, and
    // then no table may be left.
    /// The pages. With a driver's own memory this would hold it in place as well: a reference, a
    /// pin, a buffer object that may not move meanwhile.
    table: PagesTable,
    /// Keeps the ticket where [`Memory::take_away`] finds it.
    _listing: Listing,
}

impl Client for RamClient {
    // The name of the statistics, in /sys/kernel/mm/memory_peers/.
    const NAME: &'static CStr = c"peer_client_rust";
    const VERSION: &'static CStr = c"1.0";

    // What all callbacks share: nothing, as the mapping already leads to the memory.
    type Data = ();
    type Region = Region;
    type Memory = Lent;

    // Is [addr, addr + size) of the calling process our memory, all of it? This is asked for every
    // registration of any memory, so it must be quick to say no, and never say yes to what belongs
    // to somebody else: `None` for that, not an error.
    fn acquire((): &(), range: Range) -> Result<Option<Region>> {
        let task = current!();
        // A kernel thread has no address space.
        let Some(mm) = task.mm() else {
            return Ok(None);
        };
        // The lock is held to the end of the function. What is found is a reference, good for
        // longer.
        let Some(found) = file::VM_OPS.find(&mm.mmap_read_lock(), range.addr) else {
            return Ok(None);
        };
        if range.size > found.end - range.addr {
            return Ok(None);
        }
        let start = found.offset(range.addr);
        Ok(Some(Region {
            pages: start / PAGE_SIZE..(start + range.size).div_ceil(PAGE_SIZE),
            writable: found.flags & flags::WRITE != 0,
            memory: found.data,
        }))
    }

    // Keep the range where it is until `Lent` is dropped. What fails here is what the user's
    // ibv_reg_mr() fails with.
    //
    // The ticket may be used as soon as anybody can see it. It must not be used in here: that would
    // wait for the registration, and so for this very function. It is put away for later.
    fn get_pages((): &(), region: &Region, _: Range, write: bool, ticket: Ticket) -> Result<Lent> {
        // Else RDMA could write where the process may not.
        if write && !region.writable {
            return Err(EFAULT);
        }
        // First the ticket, then the pages: so that whoever takes the memory away either keeps us
        // from lending it, or waits until this registration is done, and takes it back.
        let listing = Memory::list(&region.memory, ticket)?;
        Ok(Lent {
            table: region.memory.table(region.pages.clone())?,
            _listing: listing,
        })
    }
}

impl peer_client::Memory for Lent {
    fn table(&self) -> &Table {
        self.table.table()
    }

    // Make the pages reachable by `dev`, the adapter's DMA device. Software adapters have none:
    // they use the struct pages, and this is not called.
    //
    // Take no lock here that is held when a ticket is used: that waits for this.
    fn map(&mut self, dev: &device::Device) -> Result {
        self.table.map(dev)
    }

    // The adapter has stopped: nobody uses the addresses.
    fn unmap(&mut self) {
        self.table.unmap();
    }
}
