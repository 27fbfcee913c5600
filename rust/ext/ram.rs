// SPDX-License-Identifier: GPL-2.0

//! Pages of RAM that a driver owns, and tables of them for devices.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h).

use super::dma_table::Table;
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

/// Pages of RAM, zeroed when they were allocated.
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

    /// How many pages there are.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// One page, to be mapped.
    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        let page = NonNull::new(self.pages.get(i)?.as_ptr())?;
        // SAFETY: The page is valid for as long as `self` is borrowed.
        Some(unsafe { BorrowedPage::from_raw(page) })
    }

    /// Makes a table of the pages of `range`, which keeps all of `this`. `EINVAL` where there are
    /// no such pages.
    ///
    /// Context: may sleep.
    pub fn table(this: &Arc<Self>, range: Range<usize>) -> Result<PagesTable> {
        let range = this.pages.get(range).ok_or(EINVAL)?;
        let mut pages = KVVec::with_capacity(range.len(), GFP_KERNEL)?;
        for page in range {
            pages.push(page.as_ptr(), GFP_KERNEL)?;
        }
        // An entry for each page: there is no device that takes less.
        let limit = PAGE_SIZE.try_into()?;
        // SAFETY: `PagesTable` keeps the pages until the table has been dropped.
        let table = unsafe { Table::from_pages(&mut pages, limit) }?;
        Ok(PagesTable {
            table,
            _pages: this.clone(),
        })
    }
}

/// A table of [`Pages`].
pub struct PagesTable {
    // Dropped in this order: a table does not outlive its pages.
    /// The table.
    table: Table,
    /// What it is made of.
    _pages: Arc<Pages>,
}

impl PagesTable {
    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`; see [`Table::map`].
    pub fn map(&mut self, dev: &device::Device) -> Result {
        self.table.map(dev)
    }

    /// Undoes [`PagesTable::map`]; nothing where the table is not mapped.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}
