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
// expect: error: type `Entries` is private
// expect: error: type `table::Mapping` is private
// expect: error[E0451]: field `tickets` of struct `tickets::TicketGuard` is private
// expect: error[E0451]: field `key` of struct `tickets::TicketGuard` is private
// expect: error[E0451]: field `addr` of struct `peer_client::VaRange` is private
// expect: error[E0451]: field `len` of struct `peer_client::VaRange` is private

use crate::ext::{
    base::{
        pci::{
            Bar,
            BarRange, //
        },
        small_vec::SmallVec, //
    },
    p2pdma::PageRefs, //
};

/// Creates a BAR at any address: its properties come from the function.
pub fn forge_bar() -> Bar {
    Bar {
        index: 0,
        start: 0,
        len: u64::MAX,
        flags: 0,
    }
}

/// Declares all physical memory to be a BAR: a table of it could give a device any address.
pub fn forge_bar_range(dev: kernel::sync::aref::ARef<kernel::pci::Device>) -> BarRange {
    BarRange {
        dev,
        index: 0,
        phys: 0..u64::MAX,
    }
}

/// Holds memory without an owner: what holds pages knows their addresses from the pages.
pub fn forge_pages(segments: SmallVec<Segment>) -> PageRefs {
    PageRefs {
        pages: SmallVec::new(),
        segments,
    }
}

/// Returns a value of any type.
fn any<T>() -> T {
    loop {}
}

/// Creates a table by hand, which can only be created from memory that is pinned.
pub fn forge_table(pages: PinnedPages) -> Table<Owned> {
    drop(pages);
    Table {
        entries: any(),
        mapping: any(),
        _memory: any(),
    }
}

/// Creates a guard whose ticket is not in the list.
pub fn forge_guard(tickets: Arc<Tickets>) -> TicketGuard {
    TicketGuard { tickets, key: 1 }
}

/// Creates an empty range.
pub fn forge_range() -> VaRange {
    VaRange { addr: 0, len: 0 }
}
