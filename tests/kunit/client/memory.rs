// SPDX-License-Identifier: GPL-2.0

//! The memory of the fake clients, and the tables of the memory.

use super::{
    ledger::Entry,
    Slot, //
};
use crate::prelude::*;

pub(super) fn base(number: usize) -> u64 {
    0x7000_0000_0000 + ((number as u64) << 32)
}

impl Slot {
    /// Returns the DMA address of byte `offset` of the memory: real pages, or made-up addresses of
    /// device memory.
    pub(super) fn device_address(&self, setup: &Setup, offset: u64) -> u64 {
        if setup.shape != Shape::Seed {
            return 0x40_0000_0000 + ((self.number as u64) << 32) + offset;
        }
        // Swaps each two neighbours.
        let place = if setup.scattered { setup.page } else { 0 };
        self.memory + (offset ^ place)
    }

    /// Returns the offsets of a region, in whole units of memory.
    fn span(&self, setup: &Setup, entry: &Entry, unit: u64) -> (u64, u64) {
        let from = entry.addr - base(setup.place.unwrap_or(self.number));
        (
            from & !(unit - 1),
            (from + entry.size).next_multiple_of(unit),
        )
    }

    /// Returns the bounds of a region in DMA addresses, in whole CPU pages.
    pub(super) fn bounds(&self, setup: &Setup, entry: &Entry) -> (u64, u64) {
        let unit = if setup.scattered {
            2 * setup.page
        } else {
            PAGE
        };
        let (from, to) = self.span(setup, entry, unit);
        let ordered = Setup {
            scattered: false,
            ..*setup
        };
        (
            self.device_address(&ordered, from),
            self.device_address(&ordered, to),
        )
    }

    /// Fills the table of a region, with pages or only with DMA addresses.
    pub(super) fn fill(
        &self,
        setup: &Setup,
        entry: &Entry,
        table: *mut bindings::sg_table,
    ) -> Result {
        let (from, to) = self.span(setup, entry, setup.page);
        let mut n = ((to - from) / setup.page) as u32;
        match setup.fault {
            Fault::Empty => return Ok(()),
            Fault::Short => n -= 1,
            _ => (),
        }
        if n == 0 {
            return Ok(());
        }
        let entries = n + setup.spare;
        // SAFETY: The callers pass a table that is not in use.
        to_result(unsafe { bindings::sg_alloc_table(table, entries, bindings::GFP_KERNEL) })?;
        // SAFETY: The list was just allocated.
        let mut sg = unsafe { (*table).sgl };
        for i in 0..n {
            let mut at = self.device_address(setup, from + u64::from(i) * setup.page);
            let mut len = setup.page as u32;
            match setup.fault {
                // The entry is shorter, so that the end does not change.
                Fault::Misaligned if i == 0 => (at, len) = (at + 0x800, len - 0x800),
                Fault::InnerMisaligned if i == 1 => at += 0x800,
                Fault::InnerOdd if i == 1 => len -= 0x800,
                Fault::Odd if i == n - 1 => len -= 0x800,
                _ => (),
            }
            // SAFETY: `sg` is an entry of the list; the address of the seed style is that of the
            // slot's pages.
            unsafe {
                if setup.shape == Shape::Seed {
                    shared::ext_sg_set_phys(sg, at, len);
                } else {
                    (*sg).length = len;
                    shared::ext_sg_set_dma(sg, at, len);
                }
                sg = bindings::sg_next(sg);
            }
        }
        Ok(())
    }
}

/// The mark of the last entry, in `page_link`.
const SG_END: usize = 2;

/// Applies a deviation to a table that [`Slot::fill`] has filled.
pub(super) fn alter(table: &mut bindings::sg_table, fault: Fault) {
    match fault {
        Fault::NoOrigNents => table.orig_nents = 0,
        Fault::NoEndMark if table.nents > 0 => {
            // SAFETY: `fill` has made a list of `nents` entries.
            unsafe {
                let last = bindings::sg_last(table.sgl, table.nents);
                (*last).page_link &= !SG_END;
            }
        }
        _ => (),
    }
}

pub(super) fn words(table: &bindings::sg_table) -> [u64; 3] {
    [
        table.sgl.addr() as u64,
        table.nents.into(),
        table.orig_nents.into(),
    ]
}

/// Returns a digest of all bytes of a table's entries.
pub(super) fn digest(table: &bindings::sg_table) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut sg = table.sgl;
    for i in 0..table.orig_nents {
        if i > 0 {
            // SAFETY: `sg` is an entry of the list, and not the last.
            sg = unsafe { bindings::sg_next(sg) };
        }
        if sg.is_null() {
            break;
        }
        // SAFETY: `sg` is an entry of a list from sg_alloc_table(), which initialises all bytes.
        let bytes = unsafe {
            core::slice::from_raw_parts(sg.cast::<u8>(), size_of::<bindings::scatterlist>())
        };
        for b in bytes {
            sum = (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }
    sum
}
