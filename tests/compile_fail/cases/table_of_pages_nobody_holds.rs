// SPDX-License-Identifier: GPL-2.0
//
// To say that pages are held is an unsafe act.
//
// expect: error[E0133]: call to unsafe function `dma_table::Table::from_pages` is unsafe and requires unsafe

/// Makes a table of pages that may be gone.
pub fn make(pages: &mut [*mut kernel::bindings::page]) -> Result<Table> {
    Table::from_pages(pages, u32::MAX)
}
