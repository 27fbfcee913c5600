// SPDX-License-Identifier: GPL-2.0
//
// A table can only be created from memory that is pinned.
//
// expect: error[E0451]: field `entries` of struct `table::Table` is private
// expect: error[E0451]: field `mapping` of struct `table::Table` is private
// expect: error[E0451]: field `_memory` of struct `table::Table` is private
// expect: error: type `Entries` is private
// expect: error: type `table::Mapping` is private

/// Returns a value of any type.
fn any<T>() -> T {
    loop {}
}

/// Creates a table by hand.
pub fn forge(pages: PinnedPages) -> Table<Owned> {
    drop(pages);
    Table {
        entries: any(),
        mapping: any(),
        _memory: any(),
    }
}
