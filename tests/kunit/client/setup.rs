// SPDX-License-Identifier: GPL-2.0

//! The shapes of fake clients.

use crate::prelude::*;

/// How a client makes its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Allocates and fills the table with struct pages in `get_pages`, maps it in `dma_map`.
    Seed,
    /// Has no struct pages: makes the table in `dma_map`, compares the structure byte for byte in
    /// `dma_unmap` and `put_pages`, frees the table in `release`.
    Gpu,
    /// Assigns its own table in `dma_map`, and frees the table in `put_pages`.
    OwnTable,
}

/// How the table of a client deviates from a table made by the kernel's functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// The last page is missing.
    Short,
    /// There are no entries.
    Empty,
    /// The first entry begins inside a page.
    Misaligned,
    /// The last entry ends inside a page.
    Odd,
    /// The second entry begins inside a page.
    InnerMisaligned,
    /// The second entry ends inside a page.
    InnerOdd,
    /// `dma_map` returns one mapped entry less than the table has.
    MapsLess,
    /// `dma_map` returns 0 mapped entries.
    MapsNone,
    // The others are accepted.
    /// Only `sgl` and `nents` are set.
    NoOrigNents,
    /// The last entry has no end mark.
    NoEndMark,
    /// `get_page_size` returns 0 before `dma_map`.
    LatePageSize,
    /// `dma_map` leaves `nmap` alone.
    NoNmap,
}

/// How a fake client behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    /// The size of the client's pages.
    pub(crate) page: u64,
    /// The result of `get_page_size`, if not `page`.
    pub(crate) says: Option<u64>,
    /// The size of the client's memory.
    pub(crate) len: u64,
    /// The slot whose address range the client claims, if not the client's own slot.
    pub(crate) place: Option<usize>,
    pub(crate) fault: Fault,
    /// `PEER_MEM_MEMORY_PINNABLE`.
    pub(crate) pinnable: bool,
    /// `PEER_MEM_MAPS_FOR_ANY_DEVICE`.
    pub(crate) any_device: bool,
    /// The pages are not in the order of the addresses.
    pub(crate) scattered: bool,
    /// The number of entries that the client allocates, but neither fills nor maps.
    pub(crate) spare: u32,
    /// Two regions may be on the same memory: during the teardown of the first region, a device may
    /// access the memory through the second.
    pub(crate) shared: bool,
    /// The client asks for an invalidate callback.
    pub(crate) invalidates: bool,
    /// The callbacks and the invalidations take the same mutex.
    pub(crate) locked: bool,
    /// `PEER_MEM_INVALIDATE_UNMAPS`.
    pub(crate) unmaps: bool,
    /// Without `release` and `get_page_size`.
    pub(crate) bare: bool,
    /// The result of `acquire` for the client's own memory.
    pub(crate) answer: i32,
}

/// Declares setups that differ from another one in some fields.
macro_rules! setups {
    ($($name:ident = $other:ident { $($field:ident: $value:expr),* };)*) => {
        $(
            pub(crate) const $name: Self = Self {
                $($field: $value,)*
                ..Self::$other
            };
        )*
    };
}

impl Setup {
    const fn new(shape: Shape) -> Self {
        let page = match shape {
            Shape::Gpu => 64 * K,
            _ => PAGE,
        };
        Self {
            shape,
            page,
            says: None,
            len: M,
            place: None,
            fault: Fault::None,
            pinnable: false,
            any_device: false,
            scattered: false,
            spare: 0,
            shared: false,
            invalidates: true,
            locked: false,
            unmaps: false,
            bare: false,
            answer: 1,
        }
    }

    pub(crate) const SEED: Self = Self::new(Shape::Seed);
    pub(crate) const GPU: Self = Self::new(Shape::Gpu);
    pub(crate) const OWN_TABLE: Self = Self::new(Shape::OwnTable);
    setups! {
        HUGE = SEED { page: 2 * M, len: 4 * M };
        LOCKED = SEED { locked: true };
        BARE = SEED { bare: true };
        UNMAPS = SEED { unmaps: true };
        PERSISTENT = SEED { invalidates: false };
        PINNABLE = SEED { pinnable: true };
        SHARED = SEED { shared: true };
        SCATTERED = SEED { scattered: true };
        ANY_DEVICE = GPU { any_device: true };
    }

    /// The shapes that ask for invalidation.
    pub(crate) const ALL_REVOCABLE: [Self; 7] = [
        Self::SEED,
        Self::GPU,
        Self::OWN_TABLE,
        Self::HUGE,
        Self::BARE,
        Self::LOCKED,
        Self::UNMAPS,
    ];

    /// Returns the setup with memory in the address range of slot `slot`.
    pub(crate) const fn at_place_of(self, slot: usize) -> Self {
        Self {
            place: Some(slot),
            ..self
        }
    }

    pub(crate) const fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }
}
