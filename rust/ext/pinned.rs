// SPDX-License-Identifier: GPL-2.0

//! Pinned pages of user memory that is peer-to-peer memory.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).

use super::{
    bindings::helpers,
    dma_table::{
        max_segment,
        Table, //
    }, //
};
use core::ops::Range;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    bindings,
    device,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pages that are pinned.
///
/// # Invariants
///
/// Each of `pages` is pinned once, on behalf of this object.
pub struct Pages {
    /// The pages, in the order of their addresses in the process.
    pages: KVVec<*mut bindings::page>,
}

// SAFETY: Pins belong to no task.
unsafe impl Send for Pages {}
// SAFETY: `&self` methods only read.
unsafe impl Sync for Pages {}

impl Pages {
    /// How many pages are pinned by one call.
    const BATCH: usize = 1 << 16;

    /// Pins the `n` pages from `addr` on, a page's address in the calling process; with `write`,
    /// for writing, so that a mapping that the process may only read is refused.
    ///
    /// The pin is not a long term one: those are refused for peer-to-peer memory. Whoever keeps it
    /// has to be able to give it up when the provider goes away.
    ///
    /// `EFAULT` where some page is not mapped, or not writable; `EINTR` where the process is being
    /// killed.
    ///
    /// Context: process context; may sleep; takes the `mmap_lock`.
    pub fn pin(addr: usize, n: usize, write: bool) -> Result<Self> {
        let mut flags = bindings::FOLL_PCI_P2PDMA;
        if write {
            flags |= bindings::FOLL_WRITE;
        }
        // INVARIANT: There are no pages yet.
        let mut this = Self {
            pages: KVVec::new(),
        };
        while this.pages.len() < n {
            let done = this.pages.len();
            // No more than for what has been found to be there: a process may ask for any `n`.
            this.pages
                .reserve((n - done).min(Self::BATCH), GFP_KERNEL | __GFP_NOWARN)?;
            let room = this.pages.spare_capacity_mut();
            let batch = (n - done).min(Self::BATCH).min(room.len());
            let start = addr.checked_add(done * PAGE_SIZE).ok_or(EFAULT)?;
            // SAFETY: There is room for `batch` pointers, at most `BATCH`.
            let got = unsafe {
                bindings::pin_user_pages_fast(
                    start,
                    batch as c_int,
                    flags,
                    room.as_mut_ptr().cast(),
                )
            };
            if got < 0 {
                return Err(Error::from_errno(got));
            }
            if got == 0 {
                return Err(EFAULT);
            }
            // INVARIANT: These have just been pinned.
            // SAFETY: The function has written that many pointers, which is at most `batch`.
            unsafe { this.pages.inc_len(got as usize) };
        }
        Ok(this)
    }

    /// The physical address of the first page, if that is peer-to-peer memory.
    pub fn first(&self) -> Option<u64> {
        let page = *self.pages.first()?;
        // SAFETY: By the type invariant the page is pinned, and so valid.
        let p2p = unsafe { helpers::ext_is_pci_p2pdma_page(page) };
        // SAFETY: As above.
        p2p.then(|| unsafe { helpers::ext_page_to_phys(page) })
    }

    /// Whether all pages are peer-to-peer memory with physical addresses in `phys`, the BAR of a
    /// provider.
    pub fn all_within(&self, phys: &Range<u64>) -> bool {
        self.pages.iter().all(|&page| {
            // SAFETY: By the type invariant the page is pinned, and so valid.
            let p2p = unsafe { helpers::ext_is_pci_p2pdma_page(page) };
            // SAFETY: As above.
            p2p && phys.contains(&unsafe { helpers::ext_page_to_phys(page) })
        })
    }

    /// Makes a table of the pages, which keeps them pinned.
    ///
    /// Context: may sleep.
    pub fn into_table(self) -> Result<PinnedTable> {
        let mut pages = self;
        let limit = u32::MAX;
        // SAFETY: `PinnedTable` keeps the pages pinned until the table has been dropped.
        let table = unsafe { Table::from_pages(&mut pages.pages, limit) }?;
        Ok(PinnedTable {
            table,
            limit,
            pages,
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant these pins are ours.
        unsafe { bindings::unpin_user_pages(self.pages.as_mut_ptr(), self.pages.len()) };
    }
}

/// A table of pinned pages.
pub struct PinnedTable {
    // Dropped in this order: a table does not outlive the pins of its pages.
    /// The table.
    table: Table,
    /// How long its entries may be, in bytes.
    limit: u32,
    /// What it is made of.
    pages: Pages,
}

impl PinnedTable {
    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`, as [`Table::map`] does. Where `dev` does not take entries as long
    /// as there are, the table is made anew.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        let limit = max_segment(dev);
        if limit < self.limit && self.table.nents().is_none() {
            // SAFETY: As in `into_table`.
            self.table = unsafe { Table::from_pages(&mut self.pages.pages, limit) }?;
            self.limit = limit;
        }
        self.table.map(dev)
    }

    /// Undoes [`PinnedTable::map`]; nothing where the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}
