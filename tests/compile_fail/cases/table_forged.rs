// SPDX-License-Identifier: GPL-2.0
//
// A table can only be created from memory that is pinned.
//
// expect: error[E0451]: field `entries` of struct `dma_table::Table` is private
// expect: error[E0451]: field `mapped` of struct `dma_table::Table` is private
// expect: error: type `Entries` is private
// expect: error: type `dma_table::Mapping` is private

/// Returns a value of any type.
fn any<T>() -> T {
    loop {}
}

/// Creates a table by hand.
pub fn forge(pages: PinnedPages) -> Table {
    drop(pages);
    Table {
        entries: any(),
        mapped: None,
    }
}
