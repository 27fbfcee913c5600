// SPDX-License-Identifier: GPL-2.0

//! The memory: its pages and the memory regions on it.

use crate::{
    ext::base::{
        ram::{
            Pages,
            Part, //
        },
        sg::PageTable, //
    },
    peer_client::Tickets, //
};
use core::ops::Range;
use kernel::{
    new_mutex,
    page::BorrowedPage,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Memory that processes can map and register.
///
/// Open files, mappings and memory regions each hold a reference.
#[pin_data]
pub(crate) struct DeviceMemory {
    pages: Arc<Pages>,
    /// The tickets of the memory regions. No lock of this driver is involved: the list is safe
    /// against concurrent registrations.
    tickets: Arc<Tickets>,
    /// Serializes invalidations. No callback takes it, so it may be held while tickets are
    /// invalidated.
    #[pin]
    invalidating: Mutex<()>,
}

impl DeviceMemory {
    /// Allocates memory of `n` pages.
    pub(crate) fn new(n: usize) -> Result<Arc<Self>> {
        let pages = Arc::new(Pages::new(n)?, GFP_KERNEL)?;
        let tickets = Tickets::new()?;
        Arc::pin_init(
            pin_init!(Self {
                pages,
                tickets,
                invalidating <- new_mutex!((), "rust_client::DeviceMemory::invalidating"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of pages.
    pub(crate) fn count(&self) -> usize {
        self.pages.count()
    }

    /// Returns page `i`, to be mapped for a process.
    pub(crate) fn page(&self, i: usize) -> Option<BorrowedPage<'_>> {
        self.pages.get(i)
    }

    /// Creates a scatter-gather table of some pages.
    pub(crate) fn table(&self, pages: Range<usize>) -> Result<PageTable<Part>> {
        Pages::table(&self.pages, pages)
    }

    /// Returns the tickets of the memory regions.
    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Revokes all memory regions. On return no device accesses the memory, and no page is pinned.
    ///
    /// A driver whose device is removed would not reopen the list.
    ///
    /// Context: may sleep; waits for registrations that are in progress.
    pub(crate) fn invalidate(&self) {
        let serialized = self.invalidating.lock();
        self.tickets.close_and_invalidate();
        // The memory of a region whose deregistration is in progress is dropped in that task. The
        // device does not access it any more, but its pages are still pinned.
        self.tickets.wait_empty();
        self.tickets.reopen();
        drop(serialized);
    }
}
