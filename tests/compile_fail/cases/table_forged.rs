// SPDX-License-Identifier: GPL-2.0
//
// A table can only be created from memory that is pinned.
//
// expect: error[E0451]: field `sgt` of struct `dma_table::Table` is private
// expect: error[E0451]: field `mapped` of struct `dma_table::Table` is private
// expect: error: type `dma_table::Mapping` is private

/// Creates a table by hand.
pub fn forge(pages: PinnedPages) -> Table {
    let sgt = kernel::bindings::sg_table::default();
    drop(pages);
    Table { sgt, mapped: None }
}
