// SPDX-License-Identifier: GPL-2.0

//! Pages of RAM that a driver owns, and tables of such pages for devices. [`Pages`] is the memory,
//! [`PagesTable`] a table. Used by clients without a device, for examples and tests.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::base::ram::{Pages, PagesTable};
//! use kernel::{device, sync::Arc};
//!
//! /// Maps the second half of new memory for `dev`.
//! fn second_half(dev: &device::Device) -> Result<PagesTable> {
//!     let pages = Arc::new(Pages::new(8)?, GFP_KERNEL)?;
//!     let mut table = Pages::table(&pages, 4..pages.count())?;
//!     table.map(dev)?;
//!     Ok(table)
//! }
//! ```

use super::dma_table::Table;
use crate::shared::bindings::helpers;
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    alloc::flags::__GFP_ZERO,
    device,
    page::{
        BorrowedPage,
        Page,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc, //
};

/// Pages of RAM, zeroed when they are allocated.
pub struct Pages {
    /// The pages.
    pages: KVVec<Page>,
}

impl Pages {
    /// Allocates `n` pages.
    ///
    /// Context: may sleep.
    pub fn new(n: usize) -> Result<Self> {
        let mut pages = KVVec::with_capacity(n, GFP_KERNEL)?;
        for _ in 0..n {
            pages.push(Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?, GFP_KERNEL)?;
        }
        Ok(Self { pages })
    }

    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// Returns page `i`, or `None` if there is no such page.
    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        let page = NonNull::new(self.pages.get(i)?.as_ptr())?;
        // SAFETY: `self` owns the page, so the page is valid while `self` is borrowed.
        Some(unsafe { BorrowedPage::from_raw(page) })
    }

    /// Creates a table of the pages in `range`. The table holds a reference to `this`.
    ///
    /// Returns `EINVAL` if `range` exceeds the pages.
    ///
    /// Context: may sleep.
    pub fn table(this: &Arc<Self>, range: Range<usize>) -> Result<PagesTable> {
        let range = this.pages.get(range).ok_or(EINVAL)?;
        // One entry for each page: every device takes entries of this length.
        let pieces = range.iter().map(|page| {
            // SAFETY: `this` owns the page.
            let phys = unsafe { helpers::ext_page_to_phys(page.as_ptr()) };
            // CAST: `PAGE_SIZE` is less than 2^32.
            phys..phys + PAGE_SIZE as u64
        });
        // SAFETY: `PagesTable` holds the pages until it has dropped the table.
        let table = unsafe { Table::from_runs(pieces) }?;
        Ok(PagesTable {
            table,
            _pages: this.clone(),
        })
    }
}

/// A table of [`Pages`].
pub struct PagesTable {
    // Fields drop in this order: a table must not outlive its pages.
    /// The table.
    table: Table,
    /// The pages of `table`.
    _pages: Arc<Pages>,
}

impl PagesTable {
    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`; see [`Table::map`].
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        self.table.map(dev)
    }

    /// Reverts [`PagesTable::map`]. Does nothing if the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}
