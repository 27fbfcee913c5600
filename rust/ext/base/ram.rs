// SPDX-License-Identifier: GPL-2.0

//! Pages of RAM that a driver owns. Used by clients without a device, for examples and tests.

use super::sg::{
    PageTable,
    Segment,
    Segments, //
};
use crate::shared::prelude::raw::*;
use kernel::{
    alloc::flags::__GFP_ZERO,
    page::{
        BorrowedPage,
        Page, //
    }, //
};

/// Pages of RAM, zeroed when they are allocated.
pub struct Pages {
    pages: KVVec<Page>,
}

impl Pages {
    /// Allocates `n` pages. Context: may sleep.
    pub fn new(n: usize) -> Result<Self> {
        let mut pages = KVVec::with_capacity(n, GFP_KERNEL)?;
        for _ in 0..n {
            pages.push(Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?, GFP_KERNEL)?;
        }
        Ok(Self { pages })
    }

    pub fn count(&self) -> usize {
        self.pages.len()
    }

    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        let page = NonNull::new(self.pages.get(i)?.as_ptr())?;
        // SAFETY: `self` owns the page, so the page is valid while `self` is borrowed.
        Some(unsafe { BorrowedPage::from_raw(page) })
    }

    /// Creates a table of the pages in `range`. The table holds a reference to `this`.
    ///
    /// Returns `EINVAL` if `range` exceeds the pages. Context: may sleep.
    pub fn table(this: &Arc<Self>, range: Range<usize>) -> Result<PageTable<Part>> {
        this.pages.get(range.clone()).ok_or(EINVAL)?;
        let pages = this.clone();
        PageTable::new(Part { pages, range })
    }
}

/// A part of [`Pages`], with one segment for each page. The pages exist as long as this object.
pub struct Part {
    pages: Arc<Pages>,
    range: Range<usize>,
}

// SAFETY: This object holds a reference to `pages`, and `pages` does not change.
unsafe impl Segments for Part {
    fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        let pages = self.pages.pages.get(self.range.clone());
        pages.unwrap_or_default().iter().map(|page| Segment {
            // SAFETY: `pages` owns the page.
            addr: unsafe { helpers::ext_page_to_phys(page.as_ptr()) },
            // CAST: `PAGE_SIZE` is less than 2^32.
            len: PAGE_SIZE as u64,
        })
    }
}
