// SPDX-License-Identifier: GPL-2.0
//
// The caller must promise that the pages of a table are pinned.
//
// expect: error[E0133]: call to unsafe function `dma_table::Table::from_runs` is unsafe and requires unsafe

/// Creates a table of pages that may be freed.
pub fn make(pages: &[core::ops::Range<u64>]) -> Result<Table> {
    Table::from_runs(pages.iter().cloned())
}
