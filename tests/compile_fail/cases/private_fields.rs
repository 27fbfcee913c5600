// SPDX-License-Identifier: GPL-2.0
//
// Values that only the abstractions create, from what they have checked.
//
// expect: error[E0451]: field `index` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `start` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `len` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `flags` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `dev` of struct `BarRange` is private
// expect: error[E0451]: field `index` of struct `BarRange` is private
// expect: error[E0451]: field `phys` of struct `BarRange` is private
// expect: error[E0451]: field `pages` of struct `PageRefs` is private
// expect: error[E0451]: field `segments` of struct `PageRefs` is private
// expect: error[E0451]: field `entries` of struct `table::Table` is private
// expect: error[E0451]: field `mapping` of struct `table::Table` is private
// expect: error[E0451]: field `_memory` of struct `table::Table` is private
// expect: error[E0451]: field `tickets` of struct `TicketGuard` is private
// expect: error[E0451]: field `key` of struct `TicketGuard` is private
// expect: error[E0451]: field `addr` of struct `VaRange` is private
// expect: error[E0451]: field `len` of struct `VaRange` is private

use crate::ext::{
    base::pci::{
        Bar,
        BarRange, //
    },
    p2pdma::PageRefs, //
};

/// Returns a value of any type.
fn any<T>() -> T {
    loop {}
}

/// Creates a BAR at any address: its properties come from the function.
pub fn forge_bar() -> Bar {
    Bar { ..any() }
}

/// Declares all physical memory to be a BAR: a table of it could give a device any address.
pub fn forge_bar_range() -> BarRange {
    BarRange { ..any() }
}

/// Holds memory without an owner: what holds pages knows their addresses from the pages.
pub fn forge_pages() -> PageRefs {
    PageRefs { ..any() }
}

/// Creates a table by hand, which can only be created from memory that is pinned.
pub fn forge_table() -> Table<Owned> {
    Table { ..any() }
}

/// Creates a guard whose ticket is not in the list.
pub fn forge_guard() -> TicketGuard {
    TicketGuard { ..any() }
}

/// Creates an empty range.
pub fn forge_range() -> VaRange {
    VaRange { ..any() }
}
