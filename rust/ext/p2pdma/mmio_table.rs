// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables of device memory that has no struct pages. [`MmioTable`] is the table of
//! parts of one BAR.

use super::Route;
use crate::shared::ext::{
    base::{
        compat::eremoteio,
        device::max_segment,
        pci::BarRange,
        sg::{
            split,
            Owned,
            Segment,
            Table, //
        },
        small_vec::SmallVec, //
    },
    p2pdma, //
};
use crate::shared::prelude::*;
use kernel::device;

/// A table of parts of a BAR.
///
/// The table holds no reference to the BAR. So the owner must unmap the table before the BAR is
/// assigned to another driver or released.
///
/// # Invariants
///
/// `segments` lie in `window`.
pub struct MmioTable {
    /// There are no struct pages, so the table has no entries until mapped.
    table: Table<Owned>,
    /// In whole pages.
    segments: SmallVec<Segment>,
    window: BarRange,
}

impl MmioTable {
    /// Creates a table of `segments`, which are physical addresses.
    ///
    /// Returns `EFAULT` unless each segment consists of whole pages in `window`.
    pub fn new(segments: SmallVec<Segment>, window: &BarRange) -> Result<Self> {
        let is_valid = |s: &Segment| is_pages_within(s, window.phys());
        if segments.is_empty() || !segments.iter().all(is_valid) {
            return Err(EFAULT);
        }
        // INVARIANT: The check above.
        Ok(Self {
            table: Table::empty(),
            segments,
            window: window.clone(),
        })
    }

    pub fn table(&self) -> &Table<Owned> {
        &self.table
    }

    /// Maps the table for `dev`.
    ///
    /// Uses bus addresses if only bridges lie between `dev` and the function of the BAR, otherwise
    /// the DMA API. `dev` must stay bound to a driver until the table is unmapped.
    ///
    /// Returns `EBUSY` if the table is mapped already, `EREMOTEIO` if `dev` cannot reach the
    /// memory, and `EIO` if the DMA API fails. Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        if self.table.is_mapped() {
            return Err(EBUSY);
        }
        let bus_offset = match p2pdma::route(self.window.dev(), dev) {
            Ok((Route::Bridges, _)) => Some(self.window.bus_offset()),
            Ok((Route::HostBridge, _)) => None,
            Err(_) => return Err(eremoteio()),
        };
        let segments = split(self.segments.iter().copied(), max_segment(dev))?;
        // SAFETY:
        // - By the type invariants the segments lie in `window`, a memory BAR.
        // - The offset is the bus offset of this BAR.
        self.table = unsafe { Table::of_mmio(segments, dev, bus_offset) }?;
        Ok(())
    }

    /// Reverts [`MmioTable::map`]. Does nothing if the table is not mapped. Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}

/// Returns whether `segment` consists of whole pages and lies in `window`.
fn is_pages_within(segment: &Segment, window: &Range<u64>) -> bool {
    // CAST: `PAGE_SIZE` is less than 2^32.
    let page = PAGE_SIZE as u64;
    segment.len > 0 && (segment.addr | segment.len) % page == 0 && segment.is_within(window)
}

#[cfg(ext_tests)]
#[kunit_tests(ext_mmio_table)]
mod tests {
    use super::*;

    /// Only whole pages of the BAR are accepted.
    #[test]
    fn within() {
        const P: u64 = PAGE_SIZE as u64;
        let window = 0x1_0000 * P..0x1_0100 * P;
        let is_valid = |addr, len| is_pages_within(&Segment { addr, len }, &window);
        assert!(is_valid(window.start, 0x100 * P));
        assert!(is_valid(window.start + P, P));
        for (addr, len) in [
            (window.start - P, 2 * P),
            (window.end - P, 2 * P),
            (window.start, 0),
            (window.start + P / 2, P / 2),
            (window.start, P / 2),
            (window.end, P),
            (window.start + P, 0u64.wrapping_sub(P)),
        ] {
            assert!(!is_valid(addr, len));
        }
    }
}
