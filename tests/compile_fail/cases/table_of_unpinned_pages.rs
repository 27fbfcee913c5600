// SPDX-License-Identifier: GPL-2.0
//
// A table of pages needs an object that keeps the pages.
//
// expect: error[E0624]: associated function `from_pages` is private

/// Creates a table of pages that may be freed.
pub fn make(pages: &[Segment]) -> Result<Table<Owned>> {
    // SAFETY: None.
    unsafe { Table::from_pages(pages.len(), pages.iter().copied()) }
}
